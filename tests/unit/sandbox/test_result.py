import pytest

from skillbus.common.bus.codec import decode, encode
from skillbus.contracts.message import Content
from skillbus.contracts.sandbox.skill_runs import RunStatus, SkillRan
from skillbus.sandbox.domain.run.arguments import Json
from skillbus.sandbox.domain.run.result import NESTING_MAX, RESULT_BYTES_MAX, parse_result


@pytest.mark.parametrize(
    ("stdout", "value"),
    [
        (b'{"a": [1, "\xe5\x8c\x97"]}\n', {"a": [1, "北"]}),
        (b"3", 3),
        (b'"\\ud83d\\ude00"', "😀"),
        (b"null", None),
    ],
)
def test_json_on_standard_output_is_the_result(stdout: bytes, value: Json) -> None:
    assert parse_result(stdout) == value


@pytest.mark.parametrize(
    "stdout",
    [
        b"",
        b"hello",
        b'{"a": 1} trailing',
        b"\xff\xfe",
        b"NaN",
        b"[Infinity]",
        b'"\\ud800"',
        b"1" * 5000,
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * (NESTING_MAX + 1) + b"]" * (NESTING_MAX + 1),
        b'{"a":' * 300 + b"1" + b"}" * 300,
        b"[1e999]",
        b'"' + b"x" * RESULT_BYTES_MAX + b'"',
    ],
    ids=[
        "empty",
        "text",
        "trailing",
        "not-utf8",
        "nan",
        "infinity",
        "surrogate",
        "long-int",
        "open",
        "deep",
        "nested",
        "objects",
        "huge",
        "large",
    ],
)
def test_anything_else_gives_no_result_and_no_error(stdout: bytes) -> None:
    assert parse_result(stdout) is None


def test_the_deepest_result_crosses_the_bus() -> None:
    result = parse_result(b"[" * NESTING_MAX + b"]" * NESTING_MAX)
    empty = Content(size_bytes=0, sha256="", inline=b"")
    ran = SkillRan(
        run_id="1",
        status=RunStatus.OK,
        exit_code=0,
        stdout=empty,
        stderr=empty,
        result=result,
        duration_ms=1,
        truncated=False,
        isolation="full",
    )
    assert decode(SkillRan, encode(ran)).result == result
