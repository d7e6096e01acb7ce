"""A run of a script, and how it ended."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.domain.errors import RunRejected
from skillbus.sandbox.domain.network import HostPort
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.names import is_safe_name


class Stream(StrEnum):
    """Where a run prints to."""

    STDOUT = "stdout"
    STDERR = "stderr"


class Level(StrEnum):
    """How runs are isolated; of those that are tried by themselves, from strongest to weakest."""

    FULL = "full"
    """Every layer."""
    FILTERED = "filtered"
    """As full, but nested user namespaces are closed by the system call filter alone."""
    CONTAINER = "container"
    """As filtered, without a private /proc: for containers, whose /proc is masked."""
    RUNSC = "runsc"
    """By gVisor: another kernel than the host's answers its system calls. Only where an operator chose it."""


ISOLATING: Final = (Level.FULL, Level.FILTERED, Level.CONTAINER)
"""What is tried, in this order."""


_SUFFIXES = {
    ".py": Runtime.PYTHON,
    ".js": Runtime.NODE,
    ".mjs": Runtime.NODE,
    ".cjs": Runtime.NODE,
    ".sh": Runtime.BASH,
    ".bash": Runtime.BASH,
}


def runtime_of(script: str) -> Runtime:
    """The runtime that a script's suffix names.

    Raises:
        RunRejected: for any other suffix.
    """
    runtime = _SUFFIXES.get(PurePosixPath(script).suffix.lower())
    if runtime is None:
        raise RunRejected(f"{script!r} is no script that can be run: use one of {', '.join(_SUFFIXES)}")
    return runtime


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What to run. The script sees `skill_root` as /skill, its working directory, read-only.

    `script` is relative to `skill_root`; `files` are read-only in the folder that `$SKILLBUS_IN` names, and what the
    script writes to the folder that `$SKILLBUS_OUT` names comes back as artifacts.
    """

    skill_root: Path
    script: str
    runtime: Runtime
    argv: tuple[str, ...] = ()
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    network: tuple[HostPort, ...] = ()
    """The only places that it can reach, by HTTP through the proxy that its environment names."""
    layer: Path | None = None
    """Packages that the script needs: a folder of the host, read-only in the sandbox."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A regular file that the run left; `name` is a safe relative path."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended, and what it gave."""

    status: RunStatus
    exit_code: int | None
    """Absent when the script did not exit by itself."""
    stdout: bytes
    stderr: bytes
    artifacts: tuple[Artifact, ...]
    duration_ms: float
    """From the handing over of the job until the script has ended and what it left is collected."""
    cpu_ms: float
    """Of the script and the children that it waited for; 0 when it was ended from outside."""
    truncated: bool
    """Whether output was cut, or artifacts were left out, at a limit."""
    level: Level
    detail: str = ""
    """Which limit or signal ended it, or which artifacts were left out, in words."""
    peak_bytes: int | None = None
    """The most memory that was seen of the whole tree; None when it was not looked at."""


@dataclass(frozen=True, slots=True)
class RunControl:
    """How whoever started a run follows it and ends it."""

    hear: Callable[[Stream, bytes], None] | None = None
    """Is told what the run prints, as it comes and within the output limit; must not block."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, it ends the run."""
    ends: AsyncExitStack | None = None
    """Where the run may leave the wait for the end of its last process, so that something is done meanwhile: when this
    is closed, none is left. Without it, none is when the run returns."""


def check_names(spec: RunSpec) -> None:
    """Whether the names and sizes in a spec are within bounds; the file system is not looked at.

    Raises:
        RunRejected: saying which is not.
    """
    limits = spec.limits
    if not is_safe_name(spec.script):
        raise RunRejected(f"script {spec.script!r} must be a plain relative path inside the skill")
    if len(spec.files) > limits.input_files:
        raise RunRejected(f"{len(spec.files)} files are given, the limit is {limits.input_files}")
    for name in spec.files:
        if not is_safe_name(name):
            raise RunRejected(f"file name {name!r} must be a plain relative path")
    _check_no_file_is_a_folder(tuple(spec.files))
    size = len(spec.stdin) + sum(map(len, spec.files.values()))
    if size > limits.input_bytes:
        raise RunRejected(f"standard input and files are {size} bytes, the limit is {limits.input_bytes}")


def _check_no_file_is_a_folder(names: tuple[str, ...]) -> None:
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    for name in names:
        if name in folders:
            raise RunRejected(f"file name {name!r} is also the folder of another file")
