"""The host's end of the control socket: the job to the agent, and the agent's report on the run.

Nothing in the report is trusted: it is bounded and checked, or refused.
"""

import asyncio
import marshal
import resource
from dataclasses import dataclass, field
from typing import Final, Protocol

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.profile import DEPS, SKILL
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import CollectedArtifact, RunSpec, is_safe_name

MARSHAL_VERSION: Final = 4
"""Format that every Python since 3.4 reads."""
NODE_STDIN_MAX: Final = 1024 * 1024
"""Bytes of standard input for a warm Node: the agent copies them to a file in the sandbox's /tmp."""
_HEADER_BYTES: Final = 5
_SMALL: Final = 4096
_LEFT_OUT_MAX: Final = 8
"""Reasons for left-out artifacts that are kept; the agent may send thousands."""
_REASON_MAX: Final = 300
_NO_DUMP: Final = 1
"""Core size limit in bytes. With 0, Linux still starts a host program that reads dumps from a pipe (`core_pattern` with
`|`); it does not with exactly 1. Source: core(5), `fs/coredump.c`."""


class ByteReader(Protocol):
    """Stream of bytes: asyncio's, or `IncomingStream`, which is cheaper to open."""

    async def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; empty at the end."""

    async def readexactly(self, size: int, /) -> bytes:
        """Return exactly `size` bytes. Raises IncompleteReadError at the end."""


class ProtocolError(Exception):
    """The agent sent something that an intact agent never sends."""


@dataclass(frozen=True, slots=True)
class ScriptExit:
    """End of the script's process."""

    exit_code: int | None
    signal: int
    cpu_ms: float


@dataclass(slots=True)
class AgentReport:
    """Report of the agent, as far as received."""

    exit: ScriptExit | None = None
    artifacts: list[CollectedArtifact] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Reasons why files in the output folder are no artifacts."""
    complete: bool = False


def encode_job(spec: RunSpec, interpreter: str, *, channel: bool) -> bytes:
    """Encode the job of a bubblewrap agent. With `channel` it comes with a tool channel in place of standard input."""
    script = f"{SKILL}/{spec.script}"
    job = {
        "script": script,
        "argv": list(spec.argv),
        "path": list(dict.fromkeys((script.rpartition("/")[0], SKILL))),
        "packages": [] if spec.layer is None else [DEPS],
        "exec": [] if spec.runtime is Runtime.PYTHON else [interpreter, script, *spec.argv],
        "channel": channel,
        "rlimits": make_rlimits(spec.runtime, spec.limits),
        "artifacts": spec.limits.artifacts,
        "artifacts_bytes": spec.limits.artifacts_bytes,
    }
    return marshal.dumps(job, MARSHAL_VERSION)


def make_rlimits(runtime: Runtime, limits: Limits) -> dict[int, tuple[int, int]]:
    """Return soft and hard limit of each kind. CPU's hard limit is a second later: SIGXCPU then names the limit."""
    hard = {
        resource.RLIMIT_NPROC: limits.processes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_CORE: _NO_DUMP,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_SIGPENDING: 256,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if runtime is Runtime.NODE:
        hard[resource.RLIMIT_DATA] = limits.node_data_bytes
    else:
        hard[resource.RLIMIT_AS] = limits.memory_bytes
    pairs = {int(kind): (value, value) for kind, value in hard.items()}
    pairs[int(resource.RLIMIT_CPU)] = (limits.cpu_s, limits.cpu_s + 1)
    return pairs


async def read_report(reader: ByteReader, limits: Limits, report: AgentReport) -> None:
    """Read the agent's report into `report` until it is complete or the socket closes.

    Raises ProtocolError if it breaks the protocol or a limit.
    """
    room = limits.artifacts_bytes
    try:
        while not report.complete:
            header = await reader.readexactly(_HEADER_BYTES)
            size = int.from_bytes(header[1:], "big")
            if size > room + _SMALL:
                raise ProtocolError(f"a frame of {size} bytes")
            room -= _add_frame(header[:1], await reader.readexactly(size), report, limits)
            if room < 0:
                raise ProtocolError("artifacts over their limit")
    except asyncio.IncompleteReadError:
        return


def _add_frame(kind: bytes, payload: bytes, report: AgentReport, limits: Limits) -> int:
    """Add one frame to the report; return the bytes of artifacts that it brought."""
    if kind == b"X" and report.exit is None and len(payload) == 12:
        code, number, cpu_ms = (int.from_bytes(payload[at : at + 4], "big", signed=True) for at in (0, 4, 8))
        report.exit = ScriptExit(None if number else code, number, float(cpu_ms))
    elif kind == b"A" and report.exit is not None and len(report.artifacts) < limits.artifacts:
        return _add_artifact(payload, report)
    elif kind == b"L" and report.exit is not None:
        _leave_out(report, payload.decode(errors="backslashreplace"))
    elif kind == b"E" and report.exit is not None:
        report.complete = True
    else:
        raise ProtocolError(f"frame {kind!r} of {len(payload)} bytes out of place")
    return 0


def _add_artifact(payload: bytes, report: AgentReport) -> int:
    size = int.from_bytes(payload[:2], "big")
    encoded, content = payload[2 : 2 + size], payload[2 + size :]
    name = encoded.decode(errors="surrogateescape")
    if is_safe_name(name) and all(name != artifact.name for artifact in report.artifacts):
        report.artifacts.append(CollectedArtifact(name, content))
    else:
        _leave_out(report, f"a name that cannot be kept: {encoded!r}")
    return len(content)


def _leave_out(report: AgentReport, reason: str) -> None:
    if len(report.left_out) < _LEFT_OUT_MAX:
        report.left_out.append(reason[:_REASON_MAX])
