"""What commands need from outside of this process and that tests give their own of."""

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from skillbus.cli.errors import StartFailedError

if TYPE_CHECKING:
    import httpx


class Running(Protocol):
    """A server that is up."""

    @property
    def http_url(self) -> str:
        """Where the HTTP API is."""
        ...

    @property
    def nats_url(self) -> str:
        """Where the bus is."""
        ...

    @property
    def data(self) -> Path:
        """The folder that everything is kept in."""
        ...


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """What a server is started with."""

    data: Path
    http_host: str
    http_port: int
    """0 is any free one."""
    log_level: str


StartServer = Callable[[ServerPlan], AbstractAsyncContextManager[Running]]
"""Starts everything in this process; it is ready when the context is entered. Raises `StartFailedError`."""


@asynccontextmanager
async def start_standalone(plan: ServerPlan) -> AsyncIterator[Running]:
    """The real one. It logs to stderr."""
    async with AsyncExitStack() as stack:
        with _garbage_left():
            from skillbus.common.logs import configure_logging  # noqa: PLC0415 (slow)
            from skillbus.standalone.app import StandaloneSettings, StartError, open_standalone  # noqa: PLC0415 (slow)

            configure_logging(plan.log_level)
            settings = StandaloneSettings(data=plan.data, http_host=plan.http_host, http_port=plan.http_port)
            try:
                running = await stack.enter_async_context(open_standalone(settings))
            except StartError as error:
                raise StartFailedError(str(error)) from error
        yield running


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Do not look for garbage meanwhile: a start makes little, and looking for it takes a sixth of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def until_signal() -> None:
    """Wait for SIGINT or SIGTERM."""
    from skillbus.common import runner  # noqa: PLC0415 (slow)

    await runner.until_signal()


@dataclass(frozen=True, slots=True)
class Outside:
    """The real things, unless others are given."""

    transport: "httpx.AsyncBaseTransport | None" = None
    """What carries HTTP; the network if absent."""
    start: StartServer = start_standalone
    until_signal: Callable[[], Awaitable[None]] = until_signal
