"""Isolation by gVisor: one container for each run, around an agent linked to the host by standard streams alone."""

import asyncio
import hashlib
import marshal
import os
import resource
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NoReturn
from uuid import uuid4

import structlog

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.installation import find_architecture
from skillbus.sandbox.adapters.bubblewrap.profile import DEPS, ENVIRONMENT, INPUT, SKILL
from skillbus.sandbox.adapters.gvisor.container import Container, ContainerCommands
from skillbus.sandbox.adapters.gvisor.runsc import ContainerPlan, Runsc
from skillbus.sandbox.adapters.host import run_in_thread
from skillbus.sandbox.adapters.inside import read_program
from skillbus.sandbox.adapters.kernel.seccomp import compile_filter
from skillbus.sandbox.adapters.supervision.admission import CachedProbe, check_run
from skillbus.sandbox.adapters.supervision.follower import RunFollower
from skillbus.sandbox.adapters.supervision.protocol import (
    MARSHAL_VERSION,
    AgentReport,
    ProtocolError,
    make_rlimits,
    read_report,
)
from skillbus.sandbox.domain.errors import RunRejected, RuntimeMissing, SandboxBroken, SandboxUnavailable
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.run.limits import MIB, Limits
from skillbus.sandbox.domain.run.spec import IsolationLevel, RunControl, RunOutcome, RunSpec

GivenFile = tuple[str, int, bytes]
"""Relative path; file mode, or 0 for a link; content, or target of the link."""

_READABLE: Final = 0o444
_EXECUTABLE: Final = 0o555
_FILE_OVERHEAD: Final = 8192
"""Most bytes that a file takes in addition to its content: rounding to a page, and its folder."""
_PREFIX: Final = "skillbus-run-"
_PROBE_LIMITS: Final = Limits(wall_s=60.0)
_REMOVE_S: Final = 60.0

log = structlog.get_logger(__name__)


def collect_files(spec: RunSpec) -> dict[str, list[GivenFile]]:
    """Return the files of the skill and of the run, by the folder in which the script sees them. Blocking.

    Raises RunRejected if the skill's folder cannot be read.
    """
    try:
        skill = list(_walk_files(spec.skill_root))
    except OSError as error:
        raise RunRejected(f"the skill's folder cannot be read: {error}") from error
    return {SKILL: skill, INPUT: [(name, _READABLE, content) for name, content in spec.files.items()]}


def _walk_files(root: Path) -> Iterator[GivenFile]:
    def fail(error: OSError) -> NoReturn:
        raise error

    for folder, names, files in os.walk(root, onerror=fail):
        for name in (*names, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            inside = str(path.relative_to(root))
            if stat.S_ISLNK(mode):
                yield inside, 0, os.fsencode(path.readlink())
            elif stat.S_ISREG(mode):
                yield inside, _EXECUTABLE if mode & stat.S_IXUSR else _READABLE, path.read_bytes()


def measure_folders(folders: Mapping[str, list[GivenFile]]) -> dict[str, int]:
    """Return the size in bytes that each folder needs."""
    return {path: MIB + sum(len(file[2]) + _FILE_OVERHEAD for file in files) for path, files in folders.items()}


def make_job(
    spec: RunSpec, interpreter: str, folders: Mapping[str, list[GivenFile]], instructions: bytes
) -> dict[str, object]:
    """Return the job in the form that `inside/gvisor_agent.py` reads. `instructions` is the system call filter."""
    flags = ("-s", "-B") if spec.runtime is Runtime.PYTHON else ()
    limits = spec.limits
    # The agent counts processes: the kernel would count those of the user that all containers share.
    kinds = {kind: pair for kind, pair in make_rlimits(spec.runtime, limits).items() if kind != resource.RLIMIT_NPROC}
    return {
        "folders": dict(folders),
        "stdin": spec.stdin,
        "exec": [interpreter, *flags, f"{SKILL}/{spec.script}", *spec.argv],
        "environment": make_environment(spec),
        "rlimits": kinds,
        "filter": instructions,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "inodes": limits.inodes,
        "artifacts": limits.artifacts,
        "artifacts_bytes": limits.artifacts_bytes,
    }


def make_environment(spec: RunSpec) -> dict[str, str]:
    """Return the whole environment of a script."""
    environment = dict(ENVIRONMENT)
    if spec.runtime is Runtime.PYTHON:
        environment["PYTHONPATH"] = SKILL if spec.layer is None else f"{SKILL}:{DEPS}"
    if spec.layer is not None:
        environment["NODE_PATH"] = f"{DEPS}/node_modules"
    return environment


def make_owner_name(data: Path) -> str:
    """Return the prefix of a service's container names: stable across restarts, different for each service."""
    identity = f"{socket.gethostname()}:{data.resolve()}"
    return f"{_PREFIX}{hashlib.sha256(identity.encode()).hexdigest()[:8]}-"


class GvisorIsolation:
    """`Isolation` by runsc, if the operator has chosen it. While it is missing, every run is refused."""

    def __init__(self, runsc: Runsc, owner: str, *, start_s: float = 60.0, refused_for_s: float = 10.0) -> None:
        """`owner` is the prefix of the container names. The first probe removes containers with it that were left."""
        self._runsc = runsc
        self._owner = owner
        self._start_s = start_s
        self._agent = marshal.dumps(
            [read_program(name).encode() for name in ("agent.py", "gvisor_agent.py")], MARSHAL_VERSION
        )
        self._filter = b""
        self._probe = CachedProbe(self._check_runsc, refused_for_s)

    async def probe(self) -> IsolationReport:
        return await self._probe.get_report()

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        report = await self.probe()
        check_run(spec)
        interpreter = report.runtimes.get(spec.runtime)
        if interpreter is None:
            raise RuntimeMissing(f"{spec.runtime} is not installed under /usr, where containers see it")
        if spec.network:
            raise RunRejected("the engine runsc gives no run a network: use the engine bubblewrap for this skill")
        if control is not None and control.tools is not None:
            raise RunRejected("the engine runsc cannot run programs that call tools: use the engine bubblewrap")
        return await self._run(spec, str(interpreter), control or RunControl())

    async def _check_runsc(self) -> IsolationReport:
        report = await run_in_thread(self._runsc.find_program)
        await run_in_thread(partial(_remove_left_containers, self._runsc, self._owner))
        self._filter = compile_filter(find_architecture())
        with tempfile.TemporaryDirectory(prefix="skillbus-probe-") as folder:
            root = Path(folder)
            root.joinpath("check.py").write_text(read_program("gvisor_self_check.py"))
            spec = RunSpec(root, "check.py", Runtime.PYTHON, limits=_PROBE_LIMITS)
            python = str(report.runtimes[Runtime.PYTHON])
            try:
                outcome = await self._run(replace(spec, argv=tuple(make_environment(spec))), python, RunControl())
            except SandboxBroken as broken:
                raise SandboxUnavailable(f"{report.engine}: {broken}") from broken
        if outcome.status is not RunStatus.OK or outcome.stdout != b"isolated\n":
            errors = outcome.stderr.decode(errors="replace").strip()
            raise SandboxUnavailable(f"{report.engine} does not isolate: {outcome.status} {outcome.detail} {errors}")
        return report

    async def _run(self, spec: RunSpec, interpreter: str, control: RunControl) -> RunOutcome:
        folders = await run_in_thread(partial(collect_files, spec))
        plan = ContainerPlan(f"{self._owner}{uuid4().hex[:12]}", spec.limits, measure_folders(folders), spec.layer)
        job = marshal.dumps(make_job(spec, interpreter, folders, self._filter), MARSHAL_VERSION)
        with tempfile.TemporaryDirectory(prefix=self._owner, ignore_cleanup_errors=True) as folder:
            command = await run_in_thread(partial(self._runsc.prepare_container, plan, Path(folder)))
            commands = ContainerCommands(command, self._runsc.remove_command(plan.name), self._runsc.environment)
            container, report = await Container.start(commands), AgentReport()
            follower = RunFollower(container, spec.limits, container.meter, control)
            try:
                try:
                    async with asyncio.timeout(self._start_s):
                        with suppress(ConnectionError):  # it has ended; `wait_ready` raises its reason
                            await container.send_message(self._agent)
                        await container.wait_ready()
                except TimeoutError:
                    raise SandboxBroken(f"the container did not start in {self._start_s:g} s") from None
                await follower.follow_run(_talk(container, job, spec.limits, report, follower))
            finally:
                await container.end(by_itself=report.complete)
        return follower.make_outcome(report, IsolationLevel.RUNSC)


async def _talk(container: Container, job: bytes, limits: Limits, report: AgentReport, follower: RunFollower) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(container.relay_frames(limits.artifacts_bytes))
            group.create_task(read_report(container.control, limits, report))
            with suppress(ConnectionError):  # the container is gone: what it has reported is all there is
                await container.send_message(job)
    except* ProtocolError as errors:
        follower.end_run(RunStatus.KILLED, f"the container broke its protocol: {errors.exceptions[0]}")


def _remove_left_containers(runsc: Runsc, owner: str) -> None:
    """Remove the containers and folders that a killed service left. Raises SandboxUnavailable if runsc fails."""
    run = partial(subprocess.run, capture_output=True, text=True, timeout=_REMOVE_S, env=dict(runsc.environment))
    try:
        names = run(runsc.list_command(), check=True).stdout.split()
        for name in (name for name in names if name.startswith(owner)):
            log.warning("container_left", name=name)
            run(runsc.remove_command(name), check=True)
        for folder in Path(tempfile.gettempdir()).glob(f"{owner}*"):
            shutil.rmtree(folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailable(f"runsc cannot list or remove containers that were left: {error}") from error
