"""Uvicorn as a part of a process: in its loop, without its signal handlers, its port known before it serves."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn
from uvicorn._types import ASGIApplication

_GRACE_S: Final = 10
_START_TIMEOUT_S: Final = 10.0
_KEEP_ALIVE_S: Final = 75
"""Of idle connections. Uvicorn's 5 s are also when httpx, and so OpenAI's client, gives one up: whoever sends in that
moment finds it closed, and a POST is not sent again."""


class PortInUseError(Exception):
    """The address cannot be listened on."""


class _Server(uvicorn.Server):
    """A server that leaves signals to the process it is part of."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@asynccontextmanager
async def serve_http(app: ASGIApplication, host: str, port: int) -> AsyncGenerator[str]:
    """Serve an ASGI app while the context is open; gives its URL. Port 0 takes a free one.

    Leaving the context takes no more requests and gives those at work 10 s.

    Raises:
        PortInUseError: Someone else listens there, or this process may not.
    """
    listener = _listen(host, port)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_GRACE_S,
        timeout_keep_alive=_KEEP_ALIVE_S,
        server_header=False,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(_START_TIMEOUT_S):
            await server.listening.wait()
        bound_host, bound_port = listener.getsockname()[:2]
        yield f"http://{f'[{bound_host}]' if ':' in bound_host else bound_host}:{bound_port}"
    finally:
        server.should_exit = True
        await serving


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise PortInUseError(
            f"cannot listen on {host}:{port}: {error.strerror or error}. Stop what is there, or choose another port."
        ) from error
    # Connections inherit it. uvloop sets it by itself; asyncio does not, and then an answer can wait 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
