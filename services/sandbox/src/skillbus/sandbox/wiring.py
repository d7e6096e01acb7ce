"""The sandbox's composition root."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Final

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.responder import route
from skillbus.common.health import ServiceHealth
from skillbus.common.serving import serve
from skillbus.contracts import runs
from skillbus.contracts import sandbox as contract
from skillbus.contracts.resources import PACKAGES, RUN_FILES
from skillbus.sandbox.adapters.bubblewrap import BubblewrapIsolation
from skillbus.sandbox.adapters.bus_skills import BusSkills
from skillbus.sandbox.adapters.metering import ChosenMetering
from skillbus.sandbox.adapters.run_files import BusRunFiles
from skillbus.sandbox.adapters.run_lines import BusRunLines
from skillbus.sandbox.adapters.stream_history import StreamHistory
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.domain.recorded import RecordedRuns
from skillbus.sandbox.domain.running import Runner
from skillbus.sandbox.errors_on_the_wire import to_wire
from skillbus.sandbox.service import SandboxHandlers
from skillbus.sandbox.settings import SandboxSettings

_LISTINGS: Final = 8
"""Looks through the history at the same time: each is hundreds of requests to the stream."""


@asynccontextmanager
async def open_sandbox(
    bus: Bus, settings: SandboxSettings, isolation: Isolation | None = None
) -> AsyncGenerator[ServiceHealth]:
    """The sandbox on the bus. On a machine that cannot isolate it is there, says so, and runs nothing."""
    async with AsyncExitStack() as stack:
        if isolation is None:
            isolation = await stack.enter_async_context(_isolation(settings))
        yield await stack.enter_async_context(_serving(bus, settings, isolation))


def _isolation(settings: SandboxSettings) -> BubblewrapIsolation:
    return BubblewrapIsolation(warm=settings.warm, metering=ChosenMetering(settings.cgroup, settings.cpus))


@asynccontextmanager
async def _serving(bus: Bus, settings: SandboxSettings, isolation: Isolation) -> AsyncGenerator[ServiceHealth]:
    bounds = settings.bounds
    skills = BusSkills(bus.caller, await open_object_store(bus, PACKAGES), settings.data, settings.kept_skills)
    await skills.prepare()
    with suppress(SandboxUnavailable):  # which it logs; each run is refused with it, or tries again
        await isolation.probe()
    files = BusRunFiles(await open_object_store(bus, RUN_FILES))
    history = StreamHistory(bus.client, bus.jetstream)
    recorded = RecordedRuns(
        runner=Runner(skills, isolation, bounds.default, bounds.slots, bounds.ceiling),
        files=files,
        history=history,
        lines=BusRunLines(bus.client),
        input_bytes=bounds.default.input_bytes,
        now=_now,
        to_wire=to_wire,
    )
    handlers = SandboxHandlers(recorded, isolation, files, history, bounds, _now)
    health = ServiceHealth(contract.SERVICE, (handlers.isolated,))
    routes = [
        route(contract.RUN_SKILL, handlers.run_skill, permits=bounds.slots + bounds.waiting),
        route(contract.GET_LIMITS, handlers.get_limits),
        route(runs.CANCEL_RUN, handlers.cancel_run),
        route(runs.LIST_RUNS, handlers.list_runs, permits=_LISTINGS),
        route(runs.GET_RUN, handlers.get_run),
    ]
    async with serve(bus, contract.SERVICE, routes, health, to_wire):
        yield health


def _now() -> datetime:
    return datetime.now(UTC)
