"""The sandbox's composition root."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.responder import route
from skillbus.common.health import ServiceHealth
from skillbus.common.serving import serve
from skillbus.contracts import sandbox as contract
from skillbus.contracts.resources import PACKAGES, RUN_FILES
from skillbus.sandbox.adapters.bubblewrap import BubblewrapIsolation
from skillbus.sandbox.adapters.bus_skills import BusSkills
from skillbus.sandbox.adapters.run_files import BusRunFiles
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.domain.limits import MIB, Limits
from skillbus.sandbox.domain.running import Runner
from skillbus.sandbox.errors_on_the_wire import to_wire
from skillbus.sandbox.service import SandboxHandlers
from skillbus.sandbox.settings import SandboxSettings


@asynccontextmanager
async def open_sandbox(
    bus: Bus, settings: SandboxSettings, isolation: Isolation | None = None
) -> AsyncGenerator[ServiceHealth]:
    """The sandbox on the bus. On a machine that cannot isolate it is there, says so, and runs nothing."""
    async with AsyncExitStack() as stack:
        if isolation is None:
            isolation = await stack.enter_async_context(BubblewrapIsolation(warm=settings.warm))
        yield await stack.enter_async_context(_serving(bus, settings, isolation))


@asynccontextmanager
async def _serving(bus: Bus, settings: SandboxSettings, isolation: Isolation) -> AsyncGenerator[ServiceHealth]:
    limits = Limits(wall_s=settings.wall_s, memory_bytes=settings.memory_mib * MIB)
    skills = BusSkills(bus.caller, await open_object_store(bus, PACKAGES), settings.data, settings.kept_skills)
    await skills.prepare()
    with suppress(SandboxUnavailable):  # which it logs; each run is refused with it, or tries again
        await isolation.probe()
    runner = Runner(skills, isolation, limits, settings.slots)
    files = BusRunFiles(await open_object_store(bus, RUN_FILES))
    handlers = SandboxHandlers(runner, isolation, files, limits, settings.slots)
    health = ServiceHealth(contract.SERVICE, (handlers.isolated,))
    routes = [
        route(contract.RUN_SKILL, handlers.run_skill, permits=settings.slots + settings.waiting),
        route(contract.GET_LIMITS, handlers.get_limits),
    ]
    async with serve(bus, contract.SERVICE, routes, health, to_wire):
        yield health
