"""Limits of runs: their defaults, the bounds of the operator, and the limits that a skill declares within them."""

from dataclasses import dataclass, replace
from typing import Final, TypeVar

from skillbus.contracts.indexer.skill_record import SkillLimits
from skillbus.contracts.sandbox.skill_runs import RunLimits

MIB: Final = 1024 * 1024
NumberT = TypeVar("NumberT", int, float)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run; times in seconds, sizes in bytes.

    The defaults are measured: ordinary Python, Node and bash skills run, and every attack of the abuse suite is held.
    """

    wall_s: float = 60.0
    cpu_s: int = 60
    """CPU time of each process."""
    memory_bytes: int = 512 * MIB
    """Memory of the whole process tree, polled. Also the address space of each Python or bash process."""
    node_data_bytes: int = 768 * MIB
    """Data segment of a Node process: V8 reserves gigabytes of address space, which therefore cannot be limited."""
    processes: int = 64
    """Processes and threads."""
    open_files: int = 128
    file_bytes: int = 32 * MIB
    output_bytes: int = 10 * MIB
    """Standard output and standard error together."""
    artifacts: int = 64
    artifacts_bytes: int = 32 * MIB
    work_bytes: int = 64 * MIB
    tmp_bytes: int = 64 * MIB
    shm_bytes: int = 16 * MIB
    inodes: int = 20_000
    """Files of all writable file systems together: tmpfs inodes are kernel memory that no rlimit covers."""
    network_sockets: int = 96
    """Replaces `sockets` for a run with a network: one end of a TCP connection buffers up to 5 MiB (measured)."""
    sockets: int = 512
    """Sockets of the whole tree. Each buffers 208 KiB by default; the seccomp filter allows no larger buffer."""
    input_bytes: int = 64 * MIB
    """Standard input and files together."""
    input_files: int = 64

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the file systems, which are fixed when a sandbox starts."""
        return self.work_bytes, self.tmp_bytes, self.shm_bytes


@dataclass(frozen=True, slots=True)
class RunBounds:
    """Limits that the operator sets."""

    default: Limits
    """Limits of a skill that declares none."""
    ceiling: Limits
    """Highest limits that a skill can declare."""
    slots: int
    """Concurrent runs."""
    waiting: int
    """Runs that may wait for a slot."""


def resolve_limits(wish: SkillLimits | None, default: Limits, ceiling: Limits) -> Limits:
    """Return `default` with the skill's own limits in place, none of them above `ceiling`."""
    if wish is None:
        return default
    resolved = replace(
        default,
        wall_s=_cap(wish.wall_s, default.wall_s, ceiling.wall_s),
        cpu_s=_cap(wish.cpu_s, default.cpu_s, ceiling.cpu_s),
        memory_bytes=_cap(_bytes(wish.memory_mib), default.memory_bytes, ceiling.memory_bytes),
        processes=_cap(wish.processes, default.processes, ceiling.processes),
        output_bytes=_cap(_bytes(wish.output_mib), default.output_bytes, ceiling.output_bytes),
        artifacts=_cap(wish.artifacts, default.artifacts, ceiling.artifacts),
        artifacts_bytes=_cap(_bytes(wish.artifacts_mib), default.artifacts_bytes, ceiling.artifacts_bytes),
        work_bytes=_cap(_bytes(wish.work_mib), default.work_bytes, ceiling.work_bytes),
    )
    return complete_limits(resolved)


def complete_limits(limits: Limits) -> Limits:
    """Return `limits` with the derived ones (file size, Node data segment) as large as the others need."""
    return replace(
        limits,
        file_bytes=max(limits.file_bytes, limits.artifacts_bytes),
        node_data_bytes=max(limits.node_data_bytes, limits.memory_bytes),
    )


def describe_limits(limits: Limits) -> RunLimits:
    """Return the limits that callers see."""
    return RunLimits.model_validate(limits, from_attributes=True)


def _cap(wish: NumberT | None, default: NumberT, top: NumberT) -> NumberT:
    return default if wish is None else min(wish, top)


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib * MIB
