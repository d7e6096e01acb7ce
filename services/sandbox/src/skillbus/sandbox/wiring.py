"""Composition root of the sandbox service."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from pydantic import SecretStr

from skillbus.common.audit_log.last_work import finish_before_answer
from skillbus.common.background import FailureLog
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.responder import route
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.resources import PACKAGES, RUN_FILES
from skillbus.contracts.sandbox import SERVICE
from skillbus.contracts.sandbox import skill_runs as contract
from skillbus.contracts.sandbox.program_runs import RUN_PROGRAM, ProgramLanguage
from skillbus.contracts.sandbox.run_history import CANCEL_RUN, GET_RUN, LIST_RUNS
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.adapters.bus.history import StreamHistory
from skillbus.sandbox.adapters.bus.program_calls import BusProgramCalls
from skillbus.sandbox.adapters.bus.run_files import BusRunFiles
from skillbus.sandbox.adapters.bus.run_lines import BusRunLines
from skillbus.sandbox.adapters.bus.skill_events import prepare_installed_skills
from skillbus.sandbox.adapters.bus.skills import BusSkills
from skillbus.sandbox.adapters.gvisor.isolation import GvisorIsolation, make_owner_name
from skillbus.sandbox.adapters.gvisor.runsc import Runsc
from skillbus.sandbox.adapters.inside import read_program
from skillbus.sandbox.adapters.kernel.metering import ChosenMetering
from skillbus.sandbox.adapters.packages.layer_builders import BuildLimits, LayerBuilder, NpmBuilder, UvBuilder
from skillbus.sandbox.adapters.packages.layers import open_layers
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.domain.packages.dependencies import Dependencies, NoDependencies, prepare_skill
from skillbus.sandbox.domain.run.limits import MIB
from skillbus.sandbox.domain.run.program import ProgramIsolation, ProgramSource
from skillbus.sandbox.domain.run.recorder import RunRecorder
from skillbus.sandbox.domain.run.runner import SkillRunner
from skillbus.sandbox.domain.skill import SkillSource
from skillbus.sandbox.errors_on_the_wire import to_wire
from skillbus.sandbox.service import SandboxHandlers
from skillbus.sandbox.settings import SandboxSettings

_LISTINGS: Final = 8
"""Lists of the history at the same time: each sends hundreds of requests to the stream."""


@asynccontextmanager
async def open_sandbox(
    bus: Bus, settings: SandboxSettings, isolation: Isolation | None = None
) -> AsyncGenerator[ServiceHealth]:
    """Serve the sandbox on the bus. On a machine that cannot isolate, it reports that and refuses every run."""
    async with AsyncExitStack() as stack:
        if isolation is None:
            isolation = await stack.enter_async_context(_isolation(settings))
        folder = settings.data / "skills"
        skills = BusSkills(bus.caller, await open_object_store(bus, PACKAGES), folder, settings.kept_skills)
        await skills.prepare()
        await stack.enter_async_context(_probe_behind(isolation))
        dependencies = await stack.enter_async_context(_dependencies(bus, settings, skills, isolation))
        bounds = settings.bounds
        files = BusRunFiles(await open_object_store(bus, RUN_FILES))
        history = StreamHistory(bus)
        runs = RunRecorder(
            runner=SkillRunner(skills, isolation, bounds.default, bounds.slots, bounds.ceiling, dependencies),
            files=files,
            history=history,
            lines=BusRunLines(bus.client),
            input_bytes=bounds.default.input_bytes,
            now=_now,
            to_wire=to_wire,
            finish=finish_before_answer,
        )
        sources = {
            ProgramLanguage.PYTHON: read_program("program_python.py"),
            ProgramLanguage.NODE: read_program("program_node.cjs"),
        }
        program_source = ProgramSource(settings.data / "programs", sources)
        await asyncio.to_thread(program_source.write_files)
        program_runner = SkillRunner(
            program_source, ProgramIsolation(isolation), bounds.default, settings.program_slots
        )
        programs = replace(runs, runner=program_runner)
        handlers = SandboxHandlers(runs, programs, BusProgramCalls(bus), isolation, files, history, bounds, _now)
        health = ServiceHealth(SERVICE, (handlers.check_isolation,))
        routes = [
            route(contract.RUN_SKILL, handlers.run_skill, permits=bounds.slots + bounds.waiting),
            route(RUN_PROGRAM, handlers.run_program, permits=settings.program_slots + bounds.waiting),
            route(contract.GET_LIMITS, handlers.get_limits),
            route(CANCEL_RUN, handlers.cancel_run),
            route(LIST_RUNS, handlers.list_runs, permits=_LISTINGS),
            route(GET_RUN, handlers.get_run),
        ]
        await stack.enter_async_context(serve_routes(bus, SERVICE, routes, health, to_wire))
        yield health


@asynccontextmanager
async def _probe_behind(isolation: Isolation) -> AsyncGenerator[None]:
    """Probe the machine in the background. Runs and health checks wait for the result."""
    probing = asyncio.create_task(_probe(isolation), name="sandbox-probe")
    try:
        yield
    finally:
        probing.cancel()
        await asyncio.wait([probing])


async def _probe(isolation: Isolation) -> None:
    # A refusal is logged by the probe; each run probes again or is refused.
    with FailureLog().guard("probe_isolation"), suppress(SandboxUnavailable):
        await isolation.probe()


@asynccontextmanager
async def _isolation(settings: SandboxSettings) -> AsyncGenerator[Isolation]:
    if settings.engine == "runsc":
        state = (settings.data / "runsc").resolve()
        runsc = Runsc(state, cgroups=settings.cgroup != "off", cpus=settings.cpus)
        yield GvisorIsolation(runsc, make_owner_name(settings.data))
        return
    metering = ChosenMetering(settings.cgroup, settings.cpus)
    async with BubblewrapIsolation(
        warm=settings.warm, metering=metering, egress=settings.egress, forks=settings.forks
    ) as isolation:
        yield isolation


@asynccontextmanager
async def _dependencies(
    bus: Bus, settings: SandboxSettings, skills: SkillSource, isolation: Isolation
) -> AsyncGenerator[Dependencies]:
    builders = create_builders(settings)
    if not builders:
        yield NoDependencies()
        return
    room = settings.layers_mib * MIB
    async with (
        open_layers(settings.data / "layers", builders, room, isolation) as layers,
        prepare_installed_skills(bus, partial(prepare_skill, skills, layers, within_s=settings.dependencies_s)),
    ):
        yield layers


def create_builders(settings: SandboxSettings) -> dict[Runtime, LayerBuilder]:
    """Return the layer builders of the languages that get their packages."""
    build = BuildLimits(settings.dependencies_s, settings.layer_mib * MIB)
    index, registry = _reveal_secret(settings.index_url), _reveal_secret(settings.npm_registry)
    builders: dict[Runtime, LayerBuilder] = {}
    if settings.dependencies or (settings.dependencies is None and index):
        builders[Runtime.PYTHON] = UvBuilder(index, build)
    if settings.dependencies or (settings.dependencies is None and registry):
        builders[Runtime.NODE] = NpmBuilder(registry, build)
    return builders


def _reveal_secret(secret: SecretStr | None) -> str | None:
    return (secret.get_secret_value() or None) if secret is not None else None


def _now() -> datetime:
    return datetime.now(UTC)
