"""`skillbus up`, `skillbus status` and `skillbus audit`."""

import asyncio
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.errors import EXIT_FAILED
from skillbus.cli.output import clean_line
from skillbus.cli.server.launcher import RunningServer, ServerPlan
from skillbus.cli.server.view import render_audit, render_counts, render_services
from skillbus.cli.session import LocalSession, Session, remote_command, server_command
from skillbus.client.local_server import remember_data_directory

if TYPE_CHECKING:
    from skillbus.contracts.http import SystemStatus

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]

MAX_WORKERS: Final = 64
"""Most workers. The settings, which are slow to import, have the same number."""

HostOption = Annotated[str, typer.Option("--host", envvar="SKILLBUS_HTTP_HOST", help="Address to listen on.")]
LogOption = Annotated[
    LogLevel,
    typer.Option("--log-level", envvar="SKILLBUS_LOG_LEVEL", case_sensitive=False, help="Lowest level to log."),
]
DataOption = Annotated[Path, typer.Option("--data", envvar="SKILLBUS_DATA", file_okay=False, help="Data directory.")]
PortOption = Annotated[
    int,
    typer.Option(
        "--http-port", envvar="SKILLBUS_HTTP_PORT", min=0, max=65_535, help="Port of the HTTP API; 0 takes a free one."
    ),
]
NoKeyOption = Annotated[
    bool,
    typer.Option(
        "--no-key",
        envvar="SKILLBUS_NO_KEY",
        help="Serve HTTP without a key, on loopback only: every program of this machine may do everything. "
        "The operator's file mcp.json is not followed.",
    ),
]
WorkersOption = Annotated[
    int,
    typer.Option(
        "--workers",
        envvar="SKILLBUS_WORKERS",
        min=1,
        max=MAX_WORKERS,
        help="Processes that answer HTTP and search: one for each core that searches may use.",
    ),
]
Fix = Annotated[bool, typer.Option("--fix", help="Repair the differences, and compare again.")]

DEFAULT_DATA: Final = Path("data")
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8080

_AUDIT_S: Final = 600.0
_LOST_WITHOUT: Final = {
    "storage": "new data is refused",
    "sandbox": "runs are refused",
    "agent": "MCP and builtin tools cannot be called",
    "learner": "knowledge can be neither written nor found",
}
"""Loss of function without a service that the system can do without."""


@server_command("skillbus up --data ./data --http-port 8080")
async def start_server(
    session: LocalSession,
    data: DataOption = DEFAULT_DATA,
    http_port: PortOption = DEFAULT_PORT,
    host: HostOption = DEFAULT_HOST,
    log_level: LogOption = "INFO",
    no_key: NoKeyOption = False,
    workers: WorkersOption = 1,
) -> None:
    """Run every service in one process until SIGINT or SIGTERM.

    With --workers, further processes answer HTTP and search, on the same port and data.

    With --json, a document with the addresses is printed when the server is ready. HTTP requests carry the owner's key:
    SKILLBUS_OWNER_KEY, or the file owner.key of the data directory, which the first start makes. Commands on this
    machine read it from there. `skillbus keys create` makes keys with fewer rights.
    """
    started = perf_counter()
    stopping = asyncio.ensure_future(session.externals.wait_for_signal())
    try:
        async with session.externals.start(ServerPlan(data, host, http_port, log_level, no_key, workers)) as running:
            remember_server(running)
            facts = describe_server(running, perf_counter() - started)
            session.output.show_result(facts, lambda: tables.build_document(facts))
            if not session.output.as_json:
                await show_login_address(session, running)
            await stopping
        session.output.print_note("Stopped.")
    finally:
        stopping.cancel()


async def show_login_address(session: LocalSession, running: RunningServer) -> None:
    """Print an address that logs a browser in, once."""
    from skillbus.cli.client.connection import Remote, open_connection  # noqa: PLC0415 (slow to import)
    from skillbus.cli.server.open_command import make_login_address  # noqa: PLC0415 (imports contracts)

    async with open_connection(Remote(running.http_url, running.api_key), session.externals.transport) as connection:
        address = await make_login_address(connection)
    session.output.print_text(
        Text(f"\nThe pages, for one browser within an hour: {address}\n`skillbus open` opens more.")
    )


def remember_server(running: RunningServer) -> None:
    """Let commands in other folders find the server. If that fails, they need --data."""
    with suppress(OSError):
        remember_data_directory(running.data)


def describe_server(running: RunningServer, took_s: float) -> dict[str, object]:
    """Return the addresses and the data directory of a server."""
    return {
        "http_url": running.http_url,
        "docs_url": f"{running.http_url.rstrip('/')}/docs",
        "nats_url": running.nats_url,
        "data": str(running.data),
        "ready_ms": round(took_s * 1000),
    }


@remote_command("skillbus status")
async def show_status(session: Session) -> None:
    """Show whether every service is ready, and what is indexed.

    Exits with 1 if the system is not ready. It is ready, with a note, on a full disk (no new data), and without the
    sandbox (no runs), the agent (no MCP and builtin tools) or the learner (no knowledge).
    """
    from skillbus.contracts.http import SystemStatus  # noqa: PLC0415 (slow to import; help pages do not need it)

    found = await session.connection.request(SystemStatus, "GET", "/api/status")
    session.output.show_result(found, lambda: render_services(found))
    if found.indexer is not None:
        session.output.print_text(render_counts(found.indexer))
    session.output.print_text(Text(clean_line(format_verdict(found)), "bold"))
    if not found.ready:
        raise typer.Exit(EXIT_FAILED)


def format_verdict(found: "SystemStatus") -> str:
    """Return the state of the system in a line. The table above it has the reasons."""
    if not found.ready:
        return "not ready"
    missing = [check.name for check in found.services if not check.ready]
    losses = [_LOST_WITHOUT.get(name, f"{name} is not ready") for name in missing]
    return f"ready, but {'; '.join(losses)}" if losses else "ready"


@remote_command("skillbus audit --fix")
async def audit_system(session: Session, fix: Fix = False) -> None:
    """Compare catalogue, knowledge base, indexes and callable tools.

    Exits with 0 only if they agree: every tool of the catalogue is indexed at its current version and can be called,
    every active knowledge item is indexed at its current version, the index holds nothing else, and every service and
    MCP server answered.
    """
    from skillbus.contracts.http import AuditReport  # noqa: PLC0415 (as above)

    body = {"fix": fix, **session.connection.scope}
    report = await session.connection.request(AuditReport, "POST", "/api/audit", json=body, wait_s=_AUDIT_S)
    session.output.show_result(report, lambda: render_audit(report))
    if not report.agrees:
        raise typer.Exit(EXIT_FAILED)
