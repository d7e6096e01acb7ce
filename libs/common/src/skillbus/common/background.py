"""Supervised background work: repeated jobs, with a log of failures; child processes that end with this one."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Protocol

import structlog

from skillbus.contracts.errors import RequestError

_PARENT_BOUND: Final = """
import ctypes, os, signal, sys
number, parent, coerced, *command = sys.argv[1:]
ctypes.CDLL(None).prctl(1, int(number), 0, 0, 0)
if os.getppid() != int(parent):
    sys.exit("the process that started this one has ended")
if coerced:
    os.environ.pop("LC_CTYPE", None)
for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(ignored, signal.SIG_DFL)
try:
    os.execv(command[0], command[1:])
except OSError as error:
    sys.exit(f"{command[0]} cannot be started: {error.strerror}")
"""
"""Program that becomes another one, after PR_SET_PDEATHSIG of prctl(2) and undoing what starting Python has changed."""

_CANCEL_AGAIN_S: Final = 2.0
"""Longer than the end of a task takes on a busy machine, such as the wait for a process that it has killed."""

log = structlog.get_logger(__name__)


def bind_to_parent(command: Sequence[str], environment: Mapping[str, str], number: signal.Signals) -> tuple[str, ...]:
    """Return a command line that runs `command` and sends it the signal `number` when this process has been killed.

    The thread that starts it must live as long as this process. Only Linux sends the signal; elsewhere `command` runs
    as it is. A function called between fork and exec (`preexec_fn`) would do the same, but can deadlock in a process
    with threads.

    Raises:
        FileNotFoundError: `command` is not a program on the PATH of `environment`.
    """
    program = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    if program is None:
        raise FileNotFoundError(f"there is no program {command[0]}")
    if sys.platform != "linux":
        return (program, *command[1:])
    coerced = "" if "LC_CTYPE" in environment else "1"  # Python adds it in the locale C
    options = (str(int(number)), str(os.getpid()), coerced)
    return (sys.executable, "-I", "-S", "-c", _PARENT_BOUND, *options, program, *command)


async def finish_within(work: Awaitable[object], within_s: float) -> bool:
    """Return True if `work` ended in time. Otherwise cancel it and return False. Raise what `work` raises.

    Works also in a task that is being cancelled: before Python 3.11.4 `asyncio.timeout` raises CancelledError there
    instead of TimeoutError, and the code after the wait is skipped.
    """
    task = asyncio.create_task(_wait_for(work))
    try:
        await asyncio.wait({task}, timeout=max(within_s, 0))
    finally:
        finished = task.done()
        if not finished:
            task.cancel()
    if finished:
        await task
    return finished


async def _wait_for(work: Awaitable[object]) -> None:
    """Wait in a task, also for a future: a cancelled `asyncio.gather` logs a CancelledError that no task takes."""
    await work


async def end_tasks(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks until they have ended: before Python 3.12 a wait in nats-py can swallow a cancellation."""
    while pending := {task for task in tasks if not task.done()}:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_CANCEL_AGAIN_S)


class PostponedError(Exception):
    """Work cannot be done now because something it needs is unavailable; a later attempt may succeed."""


class FailureLog:
    """Logs failures of background work.

    Expected failures, `postponed_by` and `RequestError`, are logged without a traceback, as a warning the first time
    and at debug level while the same reason persists. All others are logged with their traceback.
    """

    def __init__(self, *postponed_by: type[Exception]) -> None:
        self._postponed_by: tuple[type[Exception], ...] = (PostponedError, RequestError, *postponed_by)
        self._reasons: dict[str, str] = {}

    @contextmanager
    def guard(self, task: str, **values: object) -> Generator[None]:
        """Run one round of a task: an exception inside is logged with `values` and ends here."""
        try:
            yield
        except self._postponed_by as error:
            write = log.debug if self._reasons.get(task) == str(error) else log.warning
            self._reasons[task] = str(error)
            write("task_postponed", task=task, reason=str(error), **values)
        except Exception:
            # The supervisor of background work: an unforeseen error must not end it.
            log.exception("task_failed", task=task, **values)
        else:
            self._reasons.pop(task, None)


class BackgroundTask(Protocol):
    """A loop that runs until it is stopped."""

    async def run(self) -> None:
        """Run until `stop` is called or the task is cancelled."""
        ...

    def stop(self) -> None:
        """End `run` soon. Cancellation is not enough: before Python 3.12 waits in nats-py can swallow one."""
        ...


class PeriodicJob:
    """Runs its steps at once, whenever it is woken, and every `every_s` seconds.

    Steps run one after the other. A step that fails does not keep the following ones from running. A step that returns
    True has more to do: all steps run again at once.

    After a failure the next round comes when `retry_s` has passed, or at `retry`: a wake does not shorten the wait,
    because each attempt would be in vain and may take long. The last value of `retry_s` is used again and again.
    """

    def __init__(
        self,
        steps: Mapping[str, Callable[[], Awaitable[object]]],
        *,
        every_s: float,
        retry_s: Sequence[float] = (),
        postponed_by: Sequence[type[Exception]] = (),
    ) -> None:
        """Make a job of steps by name; without `retry_s` a failed job waits `every_s`."""
        self._steps = steps
        self._every_s = every_s
        self._retry_s = [min(delay, every_s) for delay in retry_s] or [every_s]
        self._failures = FailureLog(*postponed_by)
        self._woken = asyncio.Event()
        self._retried = asyncio.Event()
        self._stopped = False

    def wake(self) -> None:
        """Run soon: there is something to do."""
        self._woken.set()

    def retry(self) -> None:
        """Run soon, also after a failure: what was unavailable is available again."""
        self._woken.set()
        self._retried.set()

    def stop(self) -> None:
        """End `run` after the current step."""
        self._stopped = True
        self.retry()

    async def run(self) -> None:
        """Run rounds until `stop` is called."""
        failed_rounds = 0
        while not self._stopped:
            self._woken.clear()
            self._retried.clear()
            succeeded, has_more = await self._run_steps()
            if not succeeded:
                delay_s = self._retry_s[min(failed_rounds, len(self._retry_s) - 1)]
                failed_rounds += 1
                await finish_within(self._retried.wait(), delay_s)
                continue
            failed_rounds = 0
            if not has_more:
                await finish_within(self._woken.wait(), self._every_s)

    async def _run_steps(self) -> tuple[bool, bool]:
        """Return True, True if all steps succeeded and one of them has more to do."""
        succeeded, has_more = 0, False
        for name, step in self._steps.items():
            if self._stopped:
                break
            with self._failures.guard(name):
                has_more = await step() is True or has_more
                succeeded += 1
        return succeeded == len(self._steps), has_more


@asynccontextmanager
async def run_in_background(*tasks: BackgroundTask) -> AsyncGenerator[None]:
    """Run the tasks while the context is open."""
    running = [asyncio.create_task(task.run()) for task in tasks]
    try:
        yield
    finally:
        for task in tasks:
            task.stop()
        for future in running:
            future.cancel()
        await asyncio.gather(*running, return_exceptions=True)
