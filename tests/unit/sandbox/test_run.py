from pathlib import Path

import pytest

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.domain.errors import RunRejected
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import RunSpec, check_names


def spec(**given: object) -> RunSpec:
    values: dict[str, object] = {"skill_root": Path("x"), "script": "a.py", "runtime": Runtime.PYTHON, **given}
    return RunSpec(**values)  # type: ignore[arg-type]  # a test's shorthand


@pytest.mark.parametrize(
    "given",
    [
        {"script": "../a.py"},
        {"script": "/usr/bin/x"},
        {"files": {"../x": b""}},
        {"files": {"a": b"", "a/b": b""}},
        {"files": {str(n): b"" for n in range(65)}},
        {"stdin": b"x" * 6, "files": {"a": b"x" * 6}, "limits": Limits(input_bytes=10)},
    ],
)
def test_a_spec_that_leaves_its_bounds_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(RunRejected):
        check_names(spec(**given))


@pytest.mark.spec("tool-system.md § SkillsSandboxExecutor: 60秒超时")
@pytest.mark.spec("tool-system.md § SkillsSandboxExecutor: 10MB输出")
@pytest.mark.spec("tool-system.md § 风险1 超时 + 输出限制 + 缓存")
def test_the_limits_that_the_specification_names_are_the_defaults() -> None:
    """tool-system.md § SkillsSandboxExecutor: 60 seconds, 10 MB of output."""
    assert (Limits().wall_s, Limits().output_bytes) == (60.0, 10 * 1024 * 1024)


def test_a_spec_within_its_bounds_passes() -> None:
    check_names(spec(files={"a/b": b"x", "a/c": b"y"}, stdin=b"z"))
