"""Start of all services in this process, and the other things outside this process that tests replace."""

import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from skillbus.cli.errors import StartFailedError

if TYPE_CHECKING:
    import httpx
    from pydantic import ValidationError


_START_SWITCH_S: Final = 0.0005
"""Interval after which Python's threads take turns during a start. With 5 ms the model loads in twice the time."""


class RunningServer(Protocol):
    """A server that is ready."""

    @property
    def http_url(self) -> str: ...

    @property
    def api_key(self) -> str | None: ...

    @property
    def nats_url(self) -> str: ...

    @property
    def data(self) -> Path: ...


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """Settings to start a server with."""

    data: Path
    http_host: str
    http_port: int
    """0 takes any free port."""
    log_level: str
    no_key: bool = False
    """True serves HTTP without a key."""
    workers: int = 1
    """Processes that answer HTTP and search."""


StartServer = Callable[[ServerPlan], AbstractAsyncContextManager[RunningServer]]
"""Starts all services in this process. The context is entered when they are ready. Raises `StartFailedError`."""


@asynccontextmanager
async def start_standalone(plan: ServerPlan) -> AsyncIterator[RunningServer]:
    """Start all services and log to stderr.

    Raises:
        StartFailedError: A service or nats-server did not start.
    """
    async with AsyncExitStack() as stack:
        # A start makes little garbage, and collecting it takes a sixth of the start's time.
        gc.disable()
        # The thread that loads the model takes the interpreter's lock 300 times, and waits so long each time.
        switch_s = sys.getswitchinterval()
        sys.setswitchinterval(_START_SWITCH_S)
        try:
            # The services take a second of CPU to import, which help pages need not wait for.
            from pydantic import ValidationError  # noqa: PLC0415

            from skillbus.common.runner import configure_logging  # noqa: PLC0415
            from skillbus.standalone.app import StandaloneSettings, StartError, open_standalone  # noqa: PLC0415

            configure_logging(plan.log_level)
            try:
                settings = StandaloneSettings(
                    data=plan.data,
                    http_host=plan.http_host,
                    http_port=plan.http_port,
                    no_key=plan.no_key,
                    workers=plan.workers,
                    log_level=plan.log_level,
                )
                running = await stack.enter_async_context(open_standalone(settings))
            except StartError as error:
                raise StartFailedError(str(error)) from error
            except PermissionError as error:
                advice = "Give it to this user (chown), or choose another --data."
                raise StartFailedError(f"cannot use {error.filename}: {error.strerror}. {advice}") from error
            except ValidationError as error:
                raise _explain_setting(error) from error
        finally:
            sys.setswitchinterval(switch_s)
            gc.enable()
        yield running


def _explain_setting(error: "ValidationError") -> StartFailedError:
    """Return the error for a variable with a value that cannot be used. The value is not shown: it may be a secret."""
    from skillbus.contracts.validation import describe_error  # noqa: PLC0415 (imports pydantic)

    first = error.errors(include_url=False, include_input=False)[0]
    service = error.title.removesuffix("Settings").removeprefix("Standalone")
    name = "_".join(map(str, first["loc"])).upper()
    variable = name if name.startswith("SKILLBUS_") else "_".join(filter(None, ("SKILLBUS", service.upper(), name)))
    return StartFailedError(
        f"the variable {variable} cannot be used: it {describe_error(first)}", "Correct it, or unset it."
    )


async def wait_for_signal() -> None:
    """Wait for SIGINT or SIGTERM."""
    from skillbus.common import runner  # noqa: PLC0415 (imports uvloop, structlog and prometheus)

    await runner.until_signal()


@dataclass(frozen=True, slots=True)
class Externals:
    """Dependencies of the commands outside this process, which tests replace."""

    transport: "httpx.AsyncBaseTransport | None" = None
    """Carries HTTP requests; the network if absent."""
    start: StartServer = start_standalone
    wait_for_signal: Callable[[], Awaitable[None]] = wait_for_signal
