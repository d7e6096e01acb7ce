"""`skillbus mcp serve`."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from skillbus.cli.server.commands import DEFAULT_HOST, LogOption
from skillbus.cli.server.launcher import ServerPlan
from skillbus.cli.session import LocalSession, ProjectOption, server_command
from skillbus.client.local_server import (
    KEY_VARIABLES,
    URL_VARIABLE,
    find_data_directory,
    find_server,
    is_loopback_url,
    read_local_server,
)

ServerUrl = Annotated[
    str | None, typer.Option("--url", envvar=URL_VARIABLE, help="Address of a running skillbus. Default: see above.")
]
Key = Annotated[str | None, typer.Option("--api-key", envvar=list(KEY_VARIABLES), help="API key of the skillbus.")]
ServerData = Annotated[
    Path | None, typer.Option("--data", envvar="SKILLBUS_DATA", file_okay=False, help="Data directory of the skillbus.")
]

_CHUNK_BYTES: Final = 64 * 1024


@server_command("skillbus mcp serve --data ~/skillbus-data")
async def serve_stdio(
    session: LocalSession,
    url: ServerUrl = None,
    key: Key = None,
    data: ServerData = None,
    project: ProjectOption = None,
    log_level: LogOption = "WARNING",
) -> None:
    """Serve MCP on standard input and output, for desktop clients and IDEs that start a command.

    Connects to the skillbus at --url, or to the one that runs on the data directory. If none runs there, one is started
    in this process and ends with the client. Messages go to standard error.
    """
    data = data or find_data_directory()
    async with AsyncExitStack() as stack:
        if url is None and not _is_running(data):
            plan = ServerPlan(data, DEFAULT_HOST, 0, log_level)
            running = await stack.enter_async_context(session.externals.start(plan))
            url, key = running.http_url, key or running.api_key
        server = find_server(url, key, data)
        # httpx takes 0.1 s of CPU to import, which help pages need not wait for.
        import httpx  # noqa: PLC0415

        from skillbus.cli.tools.mcp_bridge import McpBridge  # noqa: PLC0415
        from skillbus.client.connection import check_key, check_url  # noqa: PLC0415

        try:
            address, given = check_url(server.url), check_key(server.key)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--url or --api-key") from error
        headers = {"Authorization": f"Bearer {given}"} if given else {}
        http = httpx.AsyncClient(
            base_url=address,
            headers=headers,
            transport=session.externals.transport,
            trust_env=not is_loopback_url(address),
        )
        async with http:
            session.output.print_note(f"MCP on standard input and output, for the skillbus at {address}")
            await McpBridge(http, project, _make_writer()).run(_read_lines())


def _is_running(data: Path) -> bool:
    with suppress(OSError):  # it is another user's
        return read_local_server(data) is not None
    return False


async def _read_lines() -> AsyncIterator[bytes]:
    """Yield the lines of standard input until it ends, or SIGTERM comes.

    The thread that waits for the next one does not keep the process alive.
    """
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    loop.add_signal_handler(signal.SIGTERM, lines.put_nowait, b"")

    def read() -> None:
        parts: list[bytes] = []
        with suppress(RuntimeError):  # the loop is closed
            # Not through `sys.stdin`, whose lock this thread would hold while Python ends, which is fatal.
            while chunk := os.read(descriptor, _CHUNK_BYTES):
                first, *others = chunk.split(b"\n")
                parts.append(first)
                for part in others:
                    loop.call_soon_threadsafe(lines.put_nowait, b"".join(parts) + b"\n")
                    parts = [part]
            loop.call_soon_threadsafe(lines.put_nowait, b"".join(parts))
            loop.call_soon_threadsafe(lines.put_nowait, b"")

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while line := await lines.get():
        yield line


def _make_writer() -> Callable[[bytes], Awaitable[None]]:
    """Return a function that writes a line to standard output, one after the other, in a thread."""
    lock = asyncio.Lock()

    def write(line: bytes) -> None:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    async def write_line(line: bytes) -> None:
        async with lock:
            await asyncio.to_thread(write, line)

    return write_line
