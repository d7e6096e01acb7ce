"""Uvicorn inside a running event loop: without signal handlers, and with the port known before it serves."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn
from uvicorn._types import ASGIApplication

_GRACE_S: Final = 10
_GOODBYE_S: Final = 0.5
_START_TIMEOUT_S: Final = 10.0
_KEEP_ALIVE_S: Final = 75
"""Lifetime of idle connections. Uvicorn's 5 s equal those of httpx, and so of OpenAI's client: a request sent at
that moment finds the connection closed, and a POST is not repeated."""


_LISTEN_ADVICE: Final = {
    errno.EADDRINUSE: "Stop the process that uses it, or choose another port.",
    errno.EADDRNOTAVAIL: "Choose an address of this machine, such as 127.0.0.1.",
    errno.EACCES: "Choose a port from 1024 on.",
}


class PortInUseError(Exception):
    """The server cannot listen on the address."""


class _Server(uvicorn.Server):
    """A server that leaves the signals to its process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close idle connections, and give the others their grace.

        A TLS connection is closed when both ends have said so, and an idle client says nothing before its next request.
        So idle ones are cut after a moment, in which the last reply reaches its client.
        """
        idle = [one.transport for one in self.server_state.connections if _is_idle(one)]
        for transport in idle:
            asyncio.get_running_loop().call_later(_GOODBYE_S, transport.abort)
        await super().shutdown(sockets)


def _is_idle(connection: object) -> bool:
    """Return True if a connection of uvicorn has no request, as its own shutdown decides it."""
    cycle = getattr(connection, "cycle", None)
    return cycle is None or cycle.response_complete


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Certificate chain and private key, as PEM files."""

    certificate: Path
    private_key: Path


@asynccontextmanager
async def serve_http(
    app: ASGIApplication,
    host: str,
    port: int,
    tls: TlsFiles | None = None,
    *,
    is_shared: bool = False,
) -> AsyncGenerator[str]:
    """Serve an ASGI app while the context is open, and yield its URL. Port 0 takes a free one.

    With `tls` it serves HTTPS only. With `is_shared`, several processes of one user may serve at the same address: each
    gets some of the connections.

    Leaving the context accepts no more requests, closes idle connections, and gives running requests 10 s.

    Raises:
        PortInUseError: Another process listens there, or this one is not allowed to.
    """
    listener = _listen(host, port, is_shared=is_shared)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_GRACE_S,
        timeout_keep_alive=_KEEP_ALIVE_S,
        server_header=False,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.private_key,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(_START_TIMEOUT_S):
            await server.listening.wait()
        bound_host, bound_port = listener.getsockname()[:2]
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://{f'[{bound_host}]' if ':' in bound_host else bound_host}:{bound_port}"
    finally:
        server.should_exit = True
        await serving


def check_port(host: str, port: int) -> None:
    """Raise PortInUseError unless this process can listen on an address now."""
    _listen(host, port, is_shared=False).close()


def _listen(host: str, port: int, *, is_shared: bool) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=1024, reuse_port=is_shared)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        advice = _LISTEN_ADVICE.get(error.errno or 0, "Choose another host or port.")
        raise PortInUseError(f"cannot listen on {host}:{port}: {reason}. {advice}") from error
    # Connections inherit this. uvloop sets it too; with asyncio a reply could otherwise wait 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
