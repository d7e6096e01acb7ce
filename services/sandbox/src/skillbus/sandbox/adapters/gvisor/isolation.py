"""Isolation by a container engine: one container for each run, around an agent that shares nothing with the host."""

import asyncio
import hashlib
import marshal
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

import structlog

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.gvisor.container import Client, EngineProcess
from skillbus.sandbox.adapters.gvisor.engine import PREFIX, ContainerPlan, Engine, Found
from skillbus.sandbox.adapters.gvisor.job import compile_filters, engine_job, given_folders, run_environment, sizes
from skillbus.sandbox.adapters.inside import read_program
from skillbus.sandbox.adapters.supervision.admission import CachedProbe, check_run
from skillbus.sandbox.adapters.supervision.follower import Ending, Following
from skillbus.sandbox.adapters.supervision.protocol import ProtocolError, Told, listen
from skillbus.sandbox.adapters.waits import run_in_thread
from skillbus.sandbox.domain.errors import RunRejected, RuntimeMissing, SandboxBroken, SandboxUnavailable
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import RunControl, RunOutcome, RunSpec

_PROBE_LIMITS: Final = Limits(wall_s=60.0)
_MARSHAL_VERSION: Final = 4
_SWEEP_S: Final = 60.0

log = structlog.get_logger(__name__)


def owner_name(data: Path) -> str:
    """What the names of a service's containers begin with: the same after a crash, and another for another service."""
    identity = f"{socket.gethostname()}:{data.resolve()}"
    return f"{PREFIX}{hashlib.sha256(identity.encode()).hexdigest()[:8]}-"


class EngineIsolation:
    """`Isolation` by an engine that an operator has chosen; nothing else takes its place when it is not there."""

    def __init__(self, engine: Engine, owner: str, *, start_s: float = 60.0, refused_for_s: float = 10.0) -> None:
        """`owner` begins the names of the containers; what it has left is removed at the first probe."""
        self._engine = engine
        self._owner = owner
        self._start_s = start_s
        self._code = marshal.dumps(
            [read_program(name).encode() for name in ("agent.py", "gvisor_agent.py")],
            _MARSHAL_VERSION,
        )
        self._filters: Mapping[str, bytes] = {}
        self._probe = CachedProbe(self._look, refused_for_s)

    async def probe(self) -> IsolationReport:
        """See `Isolation.probe`."""
        return await self._probe.get()

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        """See `Isolation.run`."""
        report = await self.probe()
        check_run(spec)
        interpreter = report.runtimes.get(spec.runtime)
        if interpreter is None:
            raise RuntimeMissing(f"{spec.runtime} is not in the containers of {report.engine}")
        if spec.network:
            raise RunRejected(
                f"the engine {self._engine.level} gives no run a network: choose bubblewrap for this skill"
            )
        return await self._run(spec, str(interpreter), control or RunControl())

    async def _look(self) -> IsolationReport:
        found = await run_in_thread(self._engine.find)
        await run_in_thread(partial(_sweep, self._engine, self._owner))
        self._filters = await run_in_thread(compile_filters)
        with tempfile.TemporaryDirectory(prefix="skillbus-probe-") as folder:
            root = Path(folder)
            root.joinpath("check.py").write_text(read_program("gvisor_self_check.py"))
            spec = RunSpec(root, "check.py", Runtime.PYTHON, limits=_PROBE_LIMITS)
            try:
                outcome = await self._run(replace(spec, argv=tuple(run_environment(spec))), "python3", RunControl())
            except SandboxBroken as broken:
                raise SandboxUnavailable(f"{found.version}: {broken}") from broken
        said = outcome.stdout.decode(errors="replace").splitlines()
        if outcome.status is not RunStatus.OK or said[:1] != ["isolated"]:
            words = outcome.stderr.decode(errors="replace").strip()
            raise SandboxUnavailable(f"{found.version} does not isolate: {outcome.status} {outcome.detail} {words}")
        return IsolationReport(self._engine.level, found.version, _runtimes(found, said[1:]), found.notes)

    async def _run(self, spec: RunSpec, interpreter: str, control: RunControl) -> RunOutcome:
        folders = await run_in_thread(partial(given_folders, spec))
        plan = ContainerPlan(f"{self._owner}{uuid4().hex[:12]}", spec.limits, sizes(folders), spec.layer)
        job = marshal.dumps(engine_job(spec, interpreter, folders, self._filters), _MARSHAL_VERSION)
        with tempfile.TemporaryDirectory(prefix=self._owner, ignore_cleanup_errors=True) as folder:
            command = await run_in_thread(partial(self._engine.run, plan, Path(folder)))
            client = Client(command, self._engine.remove(plan.name), self._engine.environment)
            container, told = await EngineProcess.start(client), Told()
            following = Following.of(container, spec.limits, container.meter, control)
            try:
                await self._begin(container)
                await following.follow(control.cancelled, _talk(container, job, spec.limits, told, following.ending))
            finally:
                await container.end(by_itself=told.complete)
        return following.outcome(told, self._engine.level)

    async def _begin(self, container: EngineProcess) -> None:
        try:
            async with asyncio.timeout(self._start_s):
                with suppress(ConnectionError):  # it has ended, and says why
                    await container.hand(self._code)
                await container.wait_ready()
        except TimeoutError:
            raise SandboxBroken(f"the container did not start in {self._start_s:g} s") from None


async def _talk(container: EngineProcess, job: bytes, limits: Limits, told: Told, ending: Ending) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(container.relay(limits.artifacts_bytes))
            group.create_task(listen(container.control, limits, told))
            group.create_task(_hand(container, job))
    except* ProtocolError as errors:
        ending.end(RunStatus.KILLED, f"the container broke its protocol: {errors.exceptions[0]}")


async def _hand(container: EngineProcess, job: bytes) -> None:
    with suppress(ConnectionError):  # it is gone: what it told is what there is
        await container.hand(job)


def _runtimes(found: Found, said: Sequence[str]) -> Mapping[Runtime, Path]:
    """Those of the machine where the container shows them, else those that the container named."""
    named = {Runtime(language): Path(path) for language, path in (line.split(" ", 1) for line in said)}
    return found.runtimes or named


def _sweep(engine: Engine, owner: str) -> None:
    """Remove what a service that was killed has left.

    Raises:
        SandboxUnavailable: The engine does not answer.
    """
    try:
        ask = partial(subprocess.run, capture_output=True, text=True, timeout=_SWEEP_S, env=dict(engine.environment))
        left = [name for name in ask(engine.listing(owner), check=True).stdout.split() if name.startswith(owner)]
        for name in left:
            log.warning("container_left", name=name)
            ask(engine.remove(name), check=True)
        for folder in Path(tempfile.gettempdir()).glob(f"{owner}*"):
            shutil.rmtree(folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailable(f"the engine {engine.level} cannot be asked for what was left: {error}") from error
