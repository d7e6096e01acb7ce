"""Which limits hold for a skill's runs."""

import pytest
from pydantic import ValidationError

from skillbus.contracts.indexer.skill_record import SkillLimits
from skillbus.sandbox.domain.run.limits import MIB, Limits, describe_limits, resolve_limits
from skillbus.sandbox.settings import SandboxSettings

DEFAULT = Limits(wall_s=10, cpu_s=5, memory_bytes=256 * MIB)
CEILING = Limits(wall_s=100, cpu_s=5, memory_bytes=1024 * MIB, artifacts_bytes=100 * MIB)


def test_a_skill_that_says_nothing_has_the_default() -> None:
    assert resolve_limits(None, DEFAULT, CEILING) == DEFAULT
    assert describe_limits(resolve_limits(SkillLimits(), DEFAULT, CEILING)) == describe_limits(DEFAULT)


@pytest.mark.parametrize(
    ("wish", "held"),
    [
        (SkillLimits(wall_s=0.5), {"wall_s": 0.5}),
        (SkillLimits(wall_s=50), {"wall_s": 50}),
        (SkillLimits(wall_s=1000), {"wall_s": 100}),
        (SkillLimits(cpu_s=1000), {"cpu_s": 5}),
        (SkillLimits(memory_mib=32), {"memory_bytes": 32 * MIB}),
        (SkillLimits(memory_mib=4096), {"memory_bytes": 1024 * MIB}),
        (SkillLimits(processes=1, artifacts=0), {"processes": 1, "artifacts": 0}),
        (SkillLimits(output_mib=1, work_mib=8), {"output_bytes": MIB, "work_bytes": 8 * MIB}),
        (SkillLimits(artifacts_mib=80), {"artifacts_bytes": 80 * MIB}),
    ],
)
def test_lower_always_counts_and_higher_up_to_the_ceiling(wish: SkillLimits, held: dict[str, float]) -> None:
    assert (
        describe_limits(resolve_limits(wish, DEFAULT, CEILING)).model_dump()
        == describe_limits(DEFAULT).model_dump() | held
    )


def test_what_nobody_sets_by_hand_is_as_large_as_the_rest_needs() -> None:
    limits = resolve_limits(SkillLimits(memory_mib=1024, artifacts_mib=100), DEFAULT, CEILING)
    assert (limits.node_data_bytes, limits.file_bytes) == (1024 * MIB, 100 * MIB)
    assert resolve_limits(SkillLimits(memory_mib=32), DEFAULT, CEILING).node_data_bytes == DEFAULT.node_data_bytes


def test_ceilings_are_the_limits_unless_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLBUS_SANDBOX_WALL_S", "30")
    monkeypatch.setenv("SKILLBUS_SANDBOX_MAX_MEMORY_MIB", "2048")
    bounds = SandboxSettings().bounds
    assert (bounds.default.wall_s, bounds.ceiling.wall_s) == (30, 30)
    assert (bounds.default.memory_bytes, bounds.ceiling.memory_bytes) == (512 * MIB, 2048 * MIB)
    assert SandboxSettings.model_validate({"wall_s": 60}).bounds.default == Limits()


@pytest.mark.parametrize("name", ["wall_s", "cpu_s", "memory_mib", "processes", "output_mib", "artifacts", "work_mib"])
def test_a_ceiling_below_its_limit_stops_the_start(name: str) -> None:
    limit = {"memory_mib": 512}.get(name, 10)
    with pytest.raises(ValidationError, match=f"max_{name}"):
        SandboxSettings.model_validate({name: limit, f"max_{name}": limit // 2})
