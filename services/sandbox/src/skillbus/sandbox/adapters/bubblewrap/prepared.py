"""A sandbox that has started and waits for its job, with all that belongs to it."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from skillbus.sandbox.adapters.bubblewrap.fork_server import ForkServer
from skillbus.sandbox.adapters.bubblewrap.process import SandboxProcess, Start, start
from skillbus.sandbox.adapters.bubblewrap.slots import Slot
from skillbus.sandbox.adapters.waits import run_in_thread
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.metering import Meter
from skillbus.sandbox.domain.run.spec import Level

_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """For one run; ended in any case."""

    sandbox: SandboxProcess
    pids: tuple[int, ...]
    """Its process 1 and its agent, in the host's numbering: the roots of the trees of all its processes."""
    meter: Meter
    """Entered."""
    slot: Slot
    level: Level
    give_back: Callable[[], None]
    """Returns its user."""

    async def end(self) -> None:
        """Nothing of it is left afterwards."""
        try:
            await self.sandbox.end()
        finally:
            await self.clear()

    async def clear(self) -> None:
        """What is left of it when its processes have ended: what started them, its meter, its folder and its user."""
        async with AsyncExitStack() as whatever_fails:
            whatever_fails.callback(self.give_back)
            whatever_fails.push_async_callback(run_in_thread, self._remove)
            whatever_fails.push_async_callback(self.meter.leave)
            await self.sandbox.bury()

    def _remove(self) -> None:
        self.sandbox.let_go_of_mounts()
        self.slot.remove()


async def prepare(
    plan: Start,
    server: ForkServer,
    *,
    meter: Meter,
    slot: Slot,
    level: Level,
    start_s: float,
    give_back: Callable[[], None],
) -> Prepared:
    """Start a sandbox and wait for its agent's first word; when that fails, none of its processes is left.

    From then on it owns `slot`, and its user until `give_back`.

    Raises:
        SandboxBroken: It does not report in `start_s` seconds, or cannot be started.
    """
    try:
        sandbox = start(plan)
    except OSError as error:
        raise SandboxBroken(f"the sandbox could not be started: {error}") from error
    try:
        pids = await _entered(sandbox, plan, server, start_s)
        await meter.enter(pids)
    except BaseException:
        try:
            await sandbox.end()
        finally:
            await sandbox.bury()
            await run_in_thread(sandbox.let_go_of_mounts)
            await meter.leave()
        raise
    return Prepared(sandbox, pids, meter, slot, level, give_back)


async def _entered(sandbox: SandboxProcess, plan: Start, server: ForkServer, start_s: float) -> tuple[int, ...]:
    try:
        async with asyncio.timeout(start_s):
            return await sandbox.attach(), await sandbox.enter(server, plan.entry)
    except TimeoutError as error:
        server.give_up()  # which may be what hangs; another one is started in milliseconds
        raise SandboxBroken(
            f"the sandbox did not start in {start_s:g} s: the machine is overloaded or hangs"
        ) from error
    except (OSError, ValueError) as error:
        sandbox.kill()
        async with asyncio.timeout(start_s):
            said = await sandbox.stderr.read(_CHUNK)
        words = said.decode(errors="replace").strip() or f"it ended without a word ({error!r})"
        raise SandboxBroken(f"the sandbox did not start: {words}") from error
