"""Background work: bounded waits, jobs that run again, and what is logged of their failures."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from skillbus.common.background import (
    FailureLog,
    PeriodicJob,
    PostponedError,
    bind_to_parent,
    end_tasks,
    finish_within,
    run_in_background,
)
from skillbus.contracts.errors import ErrorCode, RequestError

NEVER_S = 3_600.0


async def test_work_that_ends_in_time_is_told_from_work_that_does_not() -> None:
    assert await finish_within(asyncio.sleep(0), 5)
    assert not await finish_within(asyncio.sleep(60), 0.01)
    assert not await finish_within(asyncio.sleep(60), -1)


async def test_a_task_that_swallows_a_cancellation_is_ended_all_the_same() -> None:
    swallowed = 0

    async def work() -> None:
        nonlocal swallowed
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            swallowed += 1
        await asyncio.sleep(60)

    tasks = [asyncio.create_task(work()) for _ in range(2)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await end_tasks(*tasks)
    assert swallowed == 2
    assert all(task.cancelled() for task in tasks)


async def test_an_error_of_the_work_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await finish_within(fail(), 5)


async def test_work_that_took_too_long_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    assert not await finish_within(work(), 0.01)
    async with asyncio.timeout(5):
        await cancelled.wait()


async def test_a_cancelled_task_still_runs_the_code_after_the_wait() -> None:
    """`asyncio.timeout` in place of it would end the task at the wait, on Python before 3.11.4."""
    ended = asyncio.Event()

    async def live() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            assert not await finish_within(asyncio.sleep(60), 0.01)
            ended.set()

    task = asyncio.create_task(live())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled()
    assert ended.is_set()


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_works_gathered_that_took_too_long_leave_no_error_that_nobody_took(is_cancelled: bool) -> None:
    left = list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: left.append(context["message"]))
    works = asyncio.gather(asyncio.sleep(60), asyncio.sleep(60))
    waiting = asyncio.create_task(finish_within(works, NEVER_S if is_cancelled else 0.01))
    del works
    await asyncio.sleep(0)
    if is_cancelled:
        waiting.cancel()
    await asyncio.wait({waiting})
    if ending := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(ending, timeout=5)
    await asyncio.sleep(0.01)  # what waits for them hears of their ends in later turns of the loop
    del waiting, ending
    gc.collect()  # an error that nobody took is reported when its task is collected
    assert left == []


class Rounds:
    """A step that ends as it is given, round by round, and announces each of them."""

    def __init__(self, *outcomes: Exception | bool) -> None:
        self.outcomes = list(outcomes)
        self.done = 0
        self._changed = asyncio.Condition()

    async def __call__(self) -> bool:
        async with self._changed:
            self.done += 1
            self._changed.notify_all()
        outcome = self.outcomes.pop(0) if self.outcomes else False
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(5), self._changed:
            await self._changed.wait_for(lambda: self.done >= count)


def away() -> PostponedError:
    return PostponedError("away")


async def test_a_job_runs_at_once_and_when_it_is_woken() -> None:
    step = Rounds()
    job = PeriodicJob({"step": step}, every_s=NEVER_S)
    async with run_in_background(job):
        await step.reach(1)
        job.wake()
        await step.reach(2)


async def test_a_job_runs_periodically() -> None:
    step = Rounds()
    async with run_in_background(PeriodicJob({"step": step}, every_s=0.001)):
        await step.reach(3)


async def test_a_job_that_has_more_to_do_runs_again_at_once() -> None:
    step = Rounds(True, True)
    async with run_in_background(PeriodicJob({"step": step}, every_s=NEVER_S)):
        await step.reach(3)


async def test_a_failed_job_runs_again_after_its_retry_delay() -> None:
    step = Rounds(away(), ZeroDivisionError(), RequestError(ErrorCode.UNAVAILABLE, "away"))
    async with run_in_background(PeriodicJob({"step": step}, every_s=NEVER_S, retry_s=(0.001,))):
        await step.reach(4)


async def test_a_wake_does_not_shorten_the_retry_delay_and_a_retry_does() -> None:
    step = Rounds(away())
    job = PeriodicJob({"step": step}, every_s=NEVER_S)
    async with run_in_background(job):
        await step.reach(1)
        job.wake()
        for _ in range(10):  # turns of the loop, in which a job that may run does
            await asyncio.sleep(0)
        assert step.done == 1
        job.retry()
        await step.reach(2)


async def test_a_step_that_fails_does_not_keep_the_next_one_from_running() -> None:
    fails, follows = Rounds(away()), Rounds()
    async with run_in_background(PeriodicJob({"fails": fails, "follows": follows}, every_s=NEVER_S)):
        await follows.reach(1)
    assert fails.done == 1


async def test_a_job_ends_with_its_context_even_where_a_cancellation_is_swallowed() -> None:
    begun = asyncio.Event()

    async def stubborn() -> None:
        begun.set()
        try:
            await asyncio.sleep(NEVER_S)
        except asyncio.CancelledError:
            return

    async with asyncio.timeout(5):
        async with run_in_background(PeriodicJob({"stubborn": stubborn}, every_s=NEVER_S)):
            await begun.wait()


class UnreadyError(Exception):
    """Expected by whoever made the log."""


def levels_of(*rounds: Exception | None) -> list[str]:
    failures = FailureLog(UnreadyError)
    with capture_logs() as logs:
        for error in rounds:
            with failures.guard("task", item="x"):
                if error is not None:
                    raise error
    assert all(entry["item"] == "x" for entry in logs)
    return [str(entry["log_level"]) for entry in logs]


def test_the_same_expected_failure_again_is_no_warning() -> None:
    assert levels_of(away(), away(), PostponedError("elsewhere")) == ["warning", "debug", "warning"]


def test_an_expected_failure_after_a_success_is_a_warning_again() -> None:
    assert levels_of(UnreadyError(), None, UnreadyError()) == ["warning", "warning"]


def test_an_unforeseen_failure_is_an_error_each_time() -> None:
    assert levels_of(ZeroDivisionError(), ZeroDivisionError()) == ["error", "error"]


def test_a_program_bound_to_its_parent_starts_as_it_would_without() -> None:
    environment = {"PATH": os.defpath, "GIVEN": "yes"}
    command = ("sh", "-c", "grep -E '^Sig(Ign|Blk)' /proc/self/status; env", "a b", "$(id)")
    plain, bound = (
        subprocess.run(argv, env=environment, capture_output=True, check=True, text=True)
        for argv in (command, bind_to_parent(command, environment, signal.SIGKILL))
    )
    assert (bound.stdout, bound.stderr) == (plain.stdout, plain.stderr)
    assert "GIVEN=yes" in bound.stdout


def test_a_program_bound_to_its_parent_ends_when_that_is_killed() -> None:
    parent = (
        "import os, signal, subprocess, sys\n"
        "from skillbus.common.background import bind_to_parent\n"
        "command = ('sh', '-c', 'echo begun; exec sleep 600')\n"
        "child = subprocess.Popen(bind_to_parent(command, {'PATH': os.defpath}, signal.SIGKILL))\n"
        "signal.pause()\n"
    )
    with subprocess.Popen((sys.executable, "-c", parent), stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"begun\n"
        started.kill()
        assert started.stdout.read() == b""  # the end of the pipe, which the child had open as well


def test_a_program_whose_parent_has_ended_before_it_was_bound_does_not_start() -> None:
    bound = bind_to_parent(("true",), {"PATH": os.defpath}, signal.SIGKILL)
    elsewhere = (sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))", *bound)
    done = subprocess.run(elsewhere, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (1, "the process that started this one has ended\n")


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        bind_to_parent(("no-such-program",), {"PATH": os.defpath}, signal.SIGKILL)
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    bound = bind_to_parent((str(script),), {"PATH": os.defpath}, signal.SIGKILL)
    done = subprocess.run(bound, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (1, f"{script} cannot be started: No such file or directory\n")
