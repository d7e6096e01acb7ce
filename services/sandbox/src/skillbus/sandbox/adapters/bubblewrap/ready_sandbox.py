"""A sandbox that has started and waits for its job, with everything that belongs to it."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from skillbus.sandbox.adapters.bubblewrap.fork_server import ForkServer
from skillbus.sandbox.adapters.bubblewrap.process import SandboxProcess, SandboxStart, start_process
from skillbus.sandbox.adapters.bubblewrap.run_folder import RunFolder
from skillbus.sandbox.adapters.waits import run_in_thread
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.metering import Meter
from skillbus.sandbox.domain.run.spec import IsolationLevel

_ERRORS_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class ReadySandbox:
    """Sandbox for one run. Its owner must `end` it."""

    sandbox: SandboxProcess
    pids: tuple[int, ...]
    """Process 1 and the agent, in the host's numbering: the roots of all process trees of the sandbox."""
    meter: Meter
    """Entered."""
    folder: RunFolder
    level: IsolationLevel

    async def end(self) -> None:
        """Kill its processes, then release everything that belongs to it."""
        async with AsyncExitStack() as whatever_fails:
            whatever_fails.push_async_callback(run_in_thread, self.folder.remove)
            whatever_fails.push_async_callback(self.meter.leave)
            whatever_fails.push_async_callback(self.sandbox.reap)
            await self.sandbox.end()


async def start_ready(
    start: SandboxStart, server: ForkServer, *, meter: Meter, folder: RunFolder, level: IsolationLevel, within_s: float
) -> ReadySandbox:
    """Start a sandbox and wait until its agent is ready. It then owns `folder`. On failure no process is left.

    Raises:
        SandboxBroken: The sandbox cannot be started, or its agent is not ready after `within_s` seconds.
    """
    try:
        sandbox = start_process(start)
    except OSError as error:
        raise SandboxBroken(f"the sandbox could not be started: {error}") from error
    try:
        pids = await _enter_agent(sandbox, start, server, within_s)
        await meter.enter(pids)
    except BaseException:
        try:
            await sandbox.end()
        finally:
            await sandbox.reap()
            await meter.leave()
        raise
    return ReadySandbox(sandbox, pids, meter, folder, level)


async def _enter_agent(
    sandbox: SandboxProcess, start: SandboxStart, server: ForkServer, within_s: float
) -> tuple[int, ...]:
    try:
        async with asyncio.timeout(within_s):
            return await sandbox.attach(), await sandbox.enter_agent(server, start.entry)
    except TimeoutError as error:
        server.give_up()  # it may be what hangs; another one starts in milliseconds
        raise SandboxBroken(
            f"the sandbox did not start in {within_s:g} s: the machine is overloaded or hangs"
        ) from error
    except (OSError, ValueError) as error:
        sandbox.kill()
        async with asyncio.timeout(within_s):
            printed = await sandbox.stderr.read(_ERRORS_MAX)
        reason = printed.decode(errors="replace").strip() or f"it ended without an error message ({error!r})"
        raise SandboxBroken(f"the sandbox did not start: {reason}") from error
