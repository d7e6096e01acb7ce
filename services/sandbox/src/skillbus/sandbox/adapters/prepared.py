"""A sandbox that has started and waits for its job, with all that belongs to it."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from skillbus.sandbox.adapters.conversation import ProtocolError, read_ready
from skillbus.sandbox.adapters.process import SandboxProcess, Start, start
from skillbus.sandbox.adapters.slots import Slot, in_thread
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.metering import Meter
from skillbus.sandbox.domain.run import Level

_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """For one run; ended in any case."""

    sandbox: SandboxProcess
    init: int
    """Process 1 of it, in the host's numbering."""
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
            whatever_fails.push_async_callback(in_thread, self._remove)
            whatever_fails.push_async_callback(self.meter.leave)
            await self.sandbox.bury()

    def _remove(self) -> None:
        self.sandbox.let_go_of_mounts()
        self.slot.remove()


async def prepare(
    plan: Start, meter: Meter, slot: Slot, level: Level, start_s: float, give_back: Callable[[], None]
) -> Prepared:
    """Start a sandbox and wait for its first word; when that fails, none of its processes is left.

    From then on it owns `slot`, and its user until `give_back`.

    Raises:
        SandboxBroken: It does not report in `start_s` seconds, or cannot be started.
    """
    return Prepared(*await _started(plan, meter, start_s), meter, slot, level, give_back)


async def _started(plan: Start, meter: Meter, start_s: float) -> tuple[SandboxProcess, int]:
    try:
        sandbox = start(plan)
    except OSError as error:
        raise SandboxBroken(f"the sandbox could not be started: {error}") from error
    try:
        init = await _first_word(sandbox, start_s)
        await meter.enter(init)
    except BaseException:
        try:
            await sandbox.end()
        finally:
            await sandbox.bury()
            await in_thread(sandbox.let_go_of_mounts)
            await meter.leave()
        raise
    return sandbox, init


async def _first_word(sandbox: SandboxProcess, start_s: float) -> int:
    try:
        async with asyncio.timeout(start_s):
            await read_ready(sandbox.control)
            return await sandbox.attach()
    except TimeoutError as error:
        raise SandboxBroken(
            f"the sandbox did not start in {start_s:g} s: the machine is overloaded or hangs"
        ) from error
    except (OSError, ValueError, asyncio.IncompleteReadError, ProtocolError) as error:
        sandbox.kill()
        async with asyncio.timeout(start_s):
            said = await sandbox.stderr.read(_CHUNK)
        words = said.decode(errors="replace").strip() or f"it ended without a word ({error!r})"
        raise SandboxBroken(f"the sandbox did not start: {words}") from error
