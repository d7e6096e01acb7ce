"""No isolation: for an operator who has asked for exactly that, on a machine that cannot isolate.

A script sees what the service's user sees, writes where that user may write, and reaches every network. What is left
are limits: of time, of memory and processes by a watchdog, of output, and of each process by the kernel. Whatever a
script starts is ended with it, as far as it can be found.
"""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Final

import structlog

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bare_process import BareProcess, BareStart
from skillbus.sandbox.adapters.conversation import Told, rlimits
from skillbus.sandbox.adapters.following import Following
from skillbus.sandbox.adapters.installation import find_program, find_runtimes
from skillbus.sandbox.adapters.scripts import check_script
from skillbus.sandbox.adapters.slots import in_thread
from skillbus.sandbox.adapters.watchdog import Watchdog, check_processes
from skillbus.sandbox.domain.errors import RunRejected, RuntimeMissing, SandboxBroken, SandboxUnavailable
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.limits import Limits
from skillbus.sandbox.domain.names import is_safe_name
from skillbus.sandbox.domain.run import Artifact, Level, RunControl, RunOutcome, RunSpec, check_names

_ENTRIES_MAX: Final = 4096
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"

log = structlog.get_logger(__name__)


class UnsafeIsolation:
    """`Isolation` that isolates nothing."""

    def __init__(self) -> None:
        self._prlimit = find_program("prlimit")
        self._metering = Watchdog(looks=(check_processes,))
        self._found: IsolationReport | None = None

    async def probe(self) -> IsolationReport:
        """See `Isolation.probe`."""
        if self._found is None:
            self._limiter()
            warning = (
                f"runs are NOT isolated: they can do whatever the service's user can, whose id is {os.geteuid()}. "
                "SKILLBUS_SANDBOX_UNSAFE asks for that; unset it"
            )
            runtimes = {Runtime.PYTHON: Path(sys.executable), **find_runtimes()}
            self._found = IsolationReport(Level.NONE, "nothing", runtimes, (warning, self._metering.prepare()))
            log.warning("sandbox_unsafe", reason=warning)
        return self._found

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        """See `Isolation.run`."""
        report, control = await self.probe(), control or RunControl()
        check_names(spec)
        check_script(spec)
        interpreter = report.runtimes.get(spec.runtime)
        if interpreter is None:
            raise RuntimeMissing(f"{spec.runtime} is not installed")
        log.warning("run_without_isolation", script=spec.script, skill_root=str(spec.skill_root))
        with tempfile.TemporaryDirectory(prefix="skillbus-unsafe-", ignore_cleanup_errors=True) as folder:
            home = Path(folder)
            await in_thread(partial(_fill, home, spec))
            return await self._run(home, interpreter, spec, control)

    async def _run(self, home: Path, interpreter: Path, spec: RunSpec, control: RunControl) -> RunOutcome:
        told, meter = Told(), self._metering.meter()
        try:
            process = BareProcess(self._start(home, interpreter, spec))
        except OSError as error:
            raise SandboxBroken(f"the script could not be started: {error}") from error
        following = Following.of(process, spec.limits, meter, control)
        try:
            await process.connect()
            await meter.enter((process.pid,))
            meter.limit(spec.limits)
            await following.follow(control.cancelled, _ended(process, told))
        finally:
            process.end()
        if following.ending.status is None:
            await in_thread(partial(_collect, home / "work" / "out", spec.limits, told))
        return following.outcome(told, Level.NONE)

    def _start(self, home: Path, interpreter: Path, spec: RunSpec) -> BareStart:
        root = home / "skill"
        flags = ("-s", "-B") if spec.runtime is Runtime.PYTHON else ()
        return BareStart(
            prlimit=self._limiter(),
            rlimits=rlimits(spec.runtime, spec.limits),
            argv=(str(interpreter), *flags, str(root / spec.script), *spec.argv),
            folder=root,
            environment=_environment(home, spec),
            stdin=home / "stdin",
        )

    def _limiter(self) -> Path:
        if self._prlimit is None:
            raise SandboxUnavailable("prlimit is missing, which limits runs: install util-linux")
        return self._prlimit


def _environment(home: Path, spec: RunSpec) -> Mapping[str, str]:
    root = str(home / "skill")
    python = root if spec.layer is None else f"{root}:{spec.layer}"
    return {
        "PATH": _PATH,
        "HOME": str(home / "work"),
        "TMPDIR": str(home / "tmp"),
        "LANG": "C.UTF-8",
        "SKILLBUS_IN": str(home / "in"),
        "SKILLBUS_OUT": str(home / "work" / "out"),
        **({"PYTHONPATH": python} if spec.runtime is Runtime.PYTHON else {}),
        **({"NODE_PATH": f"{spec.layer}/node_modules"} if spec.layer is not None else {}),
    }


def _fill(home: Path, spec: RunSpec) -> None:
    """A folder of the run's own, the skill copied: a script that writes beside itself would change it for others."""
    try:
        shutil.copytree(spec.skill_root, home / "skill", symlinks=True)
    except (OSError, shutil.Error) as error:
        raise RunRejected(f"the skill's folder cannot be read: {error}") from error
    for folder in ("tmp", "in", "work/out"):
        (home / folder).mkdir(parents=True)
    (home / "stdin").write_bytes(spec.stdin)
    for name, content in spec.files.items():
        path = home / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o444)


async def _ended(process: BareProcess, told: Told) -> None:
    told.ended = await process.wait()


def _collect(out: Path, limits: Limits, told: Told) -> None:
    """The regular files of `out` in the order of their names, as many as the limits allow."""
    left = limits.artifacts_bytes
    for path in _entries(out, told):
        name = str(path.relative_to(out))
        try:
            content = _content(path, left)
        except OSError:
            told.left_out.append(f"not a readable regular file: {name!r}")
            continue
        if not is_safe_name(name):
            told.left_out.append(f"a name that cannot be kept: {name!r}")
        elif len(told.artifacts) == limits.artifacts or content is None:
            told.left_out.append("more artifacts than the limit, or larger ones")
            return
        else:
            told.artifacts.append(Artifact(name, content))
            left -= len(content)


def _entries(out: Path, told: Told) -> Iterator[Path]:
    if out.is_symlink():
        told.left_out.append("the output folder: a link")
        return
    seen = 0
    for folder, names, files in os.walk(out):
        names.sort()
        for name in sorted((*files, *(name for name in names if Path(folder, name).is_symlink()))):
            seen += 1
            if seen > _ENTRIES_MAX:
                told.left_out.append(f"more than {_ENTRIES_MAX} entries in the output folder")
                return
            yield Path(folder, name)


def _content(path: Path, size_max: int) -> bytes | None:
    """None when it is larger. What hid from the end of its run can still write: no more is read than was measured."""
    with BufferedReader(FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))) as file:
        measured = os.fstat(file.fileno())
        if not stat.S_ISREG(measured.st_mode):
            raise OSError("not a regular file")
        return file.read(measured.st_size) if measured.st_size <= size_max else None
