"""`skillbus up`."""

import asyncio
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from skillbus.cli import tables
from skillbus.cli.server.launcher import Running, ServerPlan
from skillbus.cli.server.options import DEFAULT_DATA, DEFAULT_HOST, DEFAULT_PORT, HostOption, LogOption
from skillbus.cli.session import ServerSession

DataOption = Annotated[
    Path, typer.Option("--data", envvar="SKILLBUS_DATA", file_okay=False, help="Folder that everything is kept in.")
]
PortOption = Annotated[
    int,
    typer.Option(
        "--http-port", envvar="SKILLBUS_HTTP_PORT", min=0, max=65_535, help="Port of the HTTP API; 0 for any."
    ),
]


async def up(
    session: ServerSession,
    data: DataOption = DEFAULT_DATA,
    http_port: PortOption = DEFAULT_PORT,
    host: HostOption = DEFAULT_HOST,
    log_level: LogOption = "INFO",
) -> None:
    """Run every service in one process, until SIGINT or SIGTERM.

    With --json, prints the document as soon as the server is ready. SKILLBUS_OWNER_KEY is the key that every HTTP
    request must carry; without one, only a loopback --host is allowed.
    """
    started = perf_counter()
    stopping = asyncio.ensure_future(session.outside.until_signal())
    try:
        async with session.outside.start(ServerPlan(data, host, http_port, log_level)) as running:
            facts = facts_of(running, perf_counter() - started)
            session.output.show(facts, lambda: tables.document(facts))
            await stopping
        session.output.note("Stopped.")
    finally:
        stopping.cancel()


def facts_of(running: Running, took_s: float) -> dict[str, object]:
    """What a user of the server has to know."""
    return {
        "http_url": running.http_url,
        "docs_url": f"{running.http_url.rstrip('/')}/docs",
        "nats_url": running.nats_url,
        "data": str(running.data),
        "ready_ms": round(took_s * 1000),
    }
