"""Specification and outcome of a run."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.contracts.sandbox.run_history import OutputStream
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.domain.egress_policy import HostPort
from skillbus.sandbox.domain.errors import RunRejected
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.tool_calls import ToolAccess


class IsolationLevel(StrEnum):
    """Isolation of runs; the automatic levels are listed from strongest to weakest."""

    FULL = "full"
    """Every layer."""
    FILTERED = "filtered"
    """Like full, but only the system call filter prevents nested user namespaces."""
    CONTAINER = "container"
    """Like filtered, without a private /proc: for containers, since their /proc is masked."""
    RUNSC = "runsc"
    """gVisor: a kernel in user space answers system calls. Only if an operator chose it."""


ISOLATING: Final = (IsolationLevel.FULL, IsolationLevel.FILTERED, IsolationLevel.CONTAINER)
"""Levels that are tried automatically, in this order."""

NAME_BYTES_MAX: Final = 240
SEGMENT_BYTES_MAX: Final = 128
DEPTH_MAX: Final = 8
_FORBIDDEN: Final = frozenset('\\:*?"<>|')
_BIDI: Final = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Specification of a run. The script sees `skill_root` read-only as /skill, its working directory.

    `script` is relative to `skill_root`. `files` appear read-only in the folder `$SKILLBUS_IN`; files that the script
    writes to the folder `$SKILLBUS_OUT` are returned as artifacts.
    """

    skill_root: Path
    script: str
    runtime: Runtime
    argv: tuple[str, ...] = ()
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    network: tuple[HostPort, ...] = ()
    """Places that the run can reach, only by HTTP through the proxy in its environment."""
    project: str = DEFAULT_PROJECT
    """Runs of different projects do not share an interpreter's address layout."""
    layer: Path | None = None
    """Host folder with the packages that the script needs; read-only in the sandbox."""


@dataclass(frozen=True, slots=True)
class CollectedArtifact:
    """A regular file that the run wrote; `name` is a safe relative path."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Status, output and artifacts of a run that has ended."""

    status: RunStatus
    exit_code: int | None
    """Exit code; None if the script did not exit by itself."""
    stdout: bytes
    stderr: bytes
    artifacts: tuple[CollectedArtifact, ...]
    duration_ms: float
    """Time from handing over the job until the script has ended and its artifacts are collected."""
    cpu_ms: float
    """CPU time of the script and the children that it waited for; 0 if it was ended from outside."""
    truncated: bool
    """True if output was cut or artifacts were left out at a limit."""
    level: IsolationLevel
    detail: str = ""
    """Explanation for people: the limit or signal that ended the run, or the artifacts that were left out."""
    peak_bytes: int | None = None
    """Peak memory of the whole process tree; None if it was not measured."""
    waited_ms: float = 0.0
    """Time that the run waited for a slot."""
    answer: bytes | None = None
    """Value of a program's last expression as JSON, if it has one."""


@dataclass(frozen=True, slots=True)
class RunControl:
    """Handle to follow and cancel a run."""

    hear: Callable[[OutputStream, bytes], None] | None = None
    """Receives output as it is printed, within the output limit. It must not block."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that cancels the run."""
    ends: AsyncExitStack | None = None
    """Stack that may take over the wait for the last process of the run, so that the caller can work during it.

    No process is left when the stack is closed; without a stack, none is left when the run returns.
    """
    tools: ToolAccess | None = None
    """Tools that the run may call through its standard input, which is a socket then."""


def is_safe_name(name: str) -> bool:
    """Return True if `name` is a relative path that is safe to create on any file system.

    It has at most 8 segments joined by `/`, no empty, `.` or `..` segment, no control or bidirectional characters, no
    characters that Windows reserves, and nothing that UTF-8 cannot encode.
    """
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return False
    segments = name.split("/")
    return len(encoded) <= NAME_BYTES_MAX and len(segments) <= DEPTH_MAX and all(map(_is_safe_segment, segments))


def _is_safe_segment(segment: str) -> bool:
    if segment in {"", ".", ".."} or len(segment.encode()) > SEGMENT_BYTES_MAX or segment.endswith((" ", ".")):
        return False
    return all(char.isprintable() and char not in _FORBIDDEN and char not in _BIDI for char in segment)


def check_names(spec: RunSpec) -> None:
    """Check names and sizes without looking at the file system. Raises RunRejected if one is out of bounds."""
    limits = spec.limits
    if not is_safe_name(spec.script):
        raise RunRejected(f"script {spec.script!r} must be a plain relative path inside the skill")
    if len(spec.files) > limits.input_files:
        raise RunRejected(f"{len(spec.files)} files are given, the limit is {limits.input_files}")
    for name in spec.files:
        if not is_safe_name(name):
            raise RunRejected(f"file name {name!r} must be a plain relative path")
    folders = {str(parent) for name in spec.files for parent in PurePosixPath(name).parents}
    for name in spec.files:
        if name in folders:
            raise RunRejected(f"file name {name!r} is also the folder of another file")
    size = len(spec.stdin) + sum(map(len, spec.files.values()))
    if size > limits.input_bytes:
        raise RunRejected(f"standard input and files are {size} bytes, the limit is {limits.input_bytes}")
