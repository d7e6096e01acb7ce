"""Which limits a skill's runs have: its own wishes, within what the operator allows."""

from dataclasses import dataclass, replace
from typing import TypeVar

from skillbus.contracts.indexer.skill_record import SkillLimits
from skillbus.contracts.sandbox.skill_runs import RunLimits
from skillbus.sandbox.domain.run.limits import MIB, Limits

NumberT = TypeVar("NumberT", int, float)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the operator has set."""

    default: Limits
    """Of a skill that says nothing."""
    ceiling: Limits
    """What a skill can raise its limits to."""
    slots: int
    """Runs at the same time."""
    waiting: int
    """Runs that may wait for a slot."""


def limits_of(wish: SkillLimits | None, default: Limits, ceiling: Limits) -> Limits:
    """`default` with what a skill wishes in its place, nothing of it above `ceiling`."""
    if wish is None:
        return default
    held = replace(
        default,
        wall_s=_held(wish.wall_s, default.wall_s, ceiling.wall_s),
        cpu_s=_held(wish.cpu_s, default.cpu_s, ceiling.cpu_s),
        memory_bytes=_held(_bytes(wish.memory_mib), default.memory_bytes, ceiling.memory_bytes),
        processes=_held(wish.processes, default.processes, ceiling.processes),
        output_bytes=_held(_bytes(wish.output_mib), default.output_bytes, ceiling.output_bytes),
        artifacts=_held(wish.artifacts, default.artifacts, ceiling.artifacts),
        artifacts_bytes=_held(_bytes(wish.artifacts_mib), default.artifacts_bytes, ceiling.artifacts_bytes),
        work_bytes=_held(_bytes(wish.work_mib), default.work_bytes, ceiling.work_bytes),
    )
    return fitting(held)


def fitting(limits: Limits) -> Limits:
    """`limits` with those that nobody sets by hand as large as the others need: of a file, and of Node's data."""
    return replace(
        limits,
        file_bytes=max(limits.file_bytes, limits.artifacts_bytes),
        node_data_bytes=max(limits.node_data_bytes, limits.memory_bytes),
    )


def told(limits: Limits) -> RunLimits:
    """Limits as callers are told of them."""
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


def _held(wish: NumberT | None, default: NumberT, top: NumberT) -> NumberT:
    return default if wish is None else min(wish, top)


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib * MIB
