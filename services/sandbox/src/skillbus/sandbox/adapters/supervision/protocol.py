"""The host's end of the control socket. Nothing that comes in is trusted: it is bounded and checked, or refused."""

import asyncio
import marshal
import resource
import signal
from dataclasses import dataclass, field
from typing import Final, Protocol

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.profile import DEPS, SKILL
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.names import is_safe_name
from skillbus.sandbox.domain.run.spec import Artifact, RunSpec

_HEADER_BYTES: Final = 5
_SMALL: Final = 4096
_LEFT_OUT_MAX: Final = 8
"""Reasons kept; the agent may send one for each of thousands of entries."""
STDIN_MAX: Final = 1024 * 1024
"""Of a Node that waited: it reads a file of its own /tmp, where the agent writes what came."""
_NO_DUMP: Final = 1
"""Bytes of a crash's dump. 0 would do for a file, but not where the host has a program that reads dumps from a pipe:
Linux starts that one whatever the limit, unless it is exactly 1 (core(5), `fs/coredump.c`)."""
_MARSHAL_VERSION: Final = 4
"""Read by every Python since 3.4."""


class Readable(Protocol):
    """A stream of bytes: asyncio's, or one that takes less to open."""

    async def read(self, size: int, /) -> bytes:
        """Some bytes, at most `size`; none at the end."""
        ...

    async def readexactly(self, size: int, /) -> bytes:
        """So many. Raises IncompleteReadError at the end."""
        ...


class ProtocolError(Exception):
    """The other side said what the agent never says."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the script's process ended."""

    exit_code: int | None
    signal: int
    cpu_ms: float


@dataclass(slots=True)
class Told:
    """What the agent has said so far."""

    ended: Ended | None = None
    artifacts: list[Artifact] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    complete: bool = False


def encode_job(spec: RunSpec, interpreter: str) -> bytes:
    """What the agent is to do."""
    script = f"{SKILL}/{spec.script}"
    job = {
        "script": script,
        "argv": list(spec.argv),
        "path": list(dict.fromkeys((script.rpartition("/")[0], SKILL))),
        "packages": [] if spec.layer is None else [DEPS],
        "exec": [] if spec.runtime is Runtime.PYTHON else [interpreter, script, *spec.argv],
        "rlimits": rlimits(spec.runtime, spec.limits),
        "artifacts": spec.limits.artifacts,
        "artifacts_bytes": spec.limits.artifacts_bytes,
    }
    return marshal.dumps(job, _MARSHAL_VERSION)


def rlimits(runtime: Runtime, limits: Limits) -> dict[int, tuple[int, int]]:
    """Soft and hard limit of each kind. CPU's hard limit is a second later: SIGXCPU tells which limit it was."""
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


async def listen(reader: Readable, limits: Limits, told: Told) -> None:
    """Take the agent's account down in `told` until it ends or the socket closes.

    Raises:
        ProtocolError: when it breaks the protocol or a limit.
    """
    room = limits.artifacts_bytes
    try:
        while not told.complete:
            kind, payload = await _read_frame(reader, room + _SMALL)
            room -= _take(kind, payload, told, limits)
            if room < 0:
                raise ProtocolError("artifacts over their limit")
    except asyncio.IncompleteReadError:
        return


async def _read_frame(reader: Readable, size_max: int) -> tuple[bytes, bytes]:
    header = await reader.readexactly(_HEADER_BYTES)
    size = int.from_bytes(header[1:], "big")
    if size > size_max:
        raise ProtocolError(f"a frame of {size} bytes")
    return header[:1], await reader.readexactly(size)


def _take(kind: bytes, payload: bytes, told: Told, limits: Limits) -> int:
    """Note one frame down; returns the bytes of artifacts that it brought."""
    if kind == b"X" and told.ended is None and len(payload) == 12:
        code, number, cpu_ms = (int.from_bytes(payload[at : at + 4], "big", signed=True) for at in (0, 4, 8))
        told.ended = Ended(None if number else code, number, float(cpu_ms))
    elif kind == b"A" and told.ended is not None and len(told.artifacts) < limits.artifacts:
        return _take_artifact(payload, told)
    elif kind == b"L" and told.ended is not None:
        _leave_out(told, payload.decode(errors="backslashreplace"))
    elif kind == b"E" and told.ended is not None:
        told.complete = True
    else:
        raise ProtocolError(f"frame {kind!r} of {len(payload)} bytes out of place")
    return 0


def _take_artifact(payload: bytes, told: Told) -> int:
    size = int.from_bytes(payload[:2], "big")
    encoded, content = payload[2 : 2 + size], payload[2 + size :]
    name = encoded.decode(errors="surrogateescape")
    if is_safe_name(name) and all(name != artifact.name for artifact in told.artifacts):
        told.artifacts.append(Artifact(name, content))
    else:
        _leave_out(told, f"a name that cannot be kept: {encoded!r}")
    return len(content)


def _leave_out(told: Told, reason: str) -> None:
    if len(told.left_out) < _LEFT_OUT_MAX:
        told.left_out.append(reason[:300])


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
