"""Limits of a skill's runs: the skill's own, within the bounds of the operator."""

from dataclasses import dataclass, replace
from typing import TypeVar

from skillbus.contracts.indexer.skill_record import SkillLimits
from skillbus.contracts.sandbox.skill_runs import RunLimits
from skillbus.sandbox.domain.run.limits import MIB, Limits

NumberT = TypeVar("NumberT", int, float)


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
    return RunLimits(
        wall_s=limits.wall_s,
        cpu_s=limits.cpu_s,
        memory_bytes=limits.memory_bytes,
        processes=limits.processes,
        output_bytes=limits.output_bytes,
        artifacts=limits.artifacts,
        artifacts_bytes=limits.artifacts_bytes,
        work_bytes=limits.work_bytes,
    )


def _cap(wish: NumberT | None, default: NumberT, top: NumberT) -> NumberT:
    return default if wish is None else min(wish, top)


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib * MIB
