"""The tool `datetime`."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from skillbus.agent.domain.builtins.date_time import make_datetime_tool, parse_moment, parse_zone
from skillbus.agent.domain.builtins.tool import BuiltinTools
from skillbus.agent.domain.errors import ArgumentsInvalidError, BuiltinFailedError
from skillbus.agent.domain.tool_answer import ToolAnswer

NOW = datetime(2026, 11, 22, 4, 30, 15, 999, tzinfo=UTC)


async def asked(**arguments: JsonValue) -> ToolAnswer:
    return await BuiltinTools([make_datetime_tool(lambda: NOW)]).get_tool("datetime").call("default", arguments)


async def iso(**arguments: JsonValue) -> str:
    answer = await asked(**arguments)
    assert isinstance(answer.structured, dict), answer.text
    return str(answer.structured["iso"])


@pytest.mark.spec("tool-system.md § 内置工具 datetime")
async def test_now_is_told_in_the_zone_that_is_asked_for() -> None:
    answer = await asked(zone="Asia/Shanghai")
    assert answer.structured == {
        "iso": "2026-11-22T12:30:15+08:00",
        "date": "2026-11-22",
        "time": "12:30:15",
        "weekday": "Sunday",
        "zone": "Asia/Shanghai",
        "utc_offset": "+0800",
        "unix": 1795321815,
        "iso_week": 47,
        "day_of_year": 326,
    }
    assert answer.text == "2026-11-22T12:30:15+08:00 Sunday 星期日 (Asia/Shanghai)"


@pytest.mark.parametrize(
    ("zone", "offset"),
    [("UTC", "+00:00"), ("utc", "+00:00"), ("+08:00", "+08:00"), ("-0330", "-03:30"), ("UTC+8", "+08:00")],
)
async def test_a_zone_may_be_an_offset(zone: str, offset: str) -> None:
    assert (await iso(zone=zone)).endswith(offset)


@pytest.mark.parametrize(
    "zone",
    ["Mars/Olympus", "../../../etc/passwd", "/etc/passwd", "Asia", "Asia/", "\0", "+99:00", "posixrules/..", "💥" * 60],
)
async def test_a_zone_that_is_none_is_an_error_of_the_tool(zone: str) -> None:
    answer = await asked(zone=zone)
    assert answer.is_error
    assert "Asia/Shanghai" in answer.text


async def test_a_moment_is_converted_to_another_zone() -> None:
    told = await iso(operation="convert", moment="2026-07-01T15:00", zone="Asia/Shanghai", to_zone="Europe/London")
    assert told == "2026-07-01T08:00:00+01:00"


async def test_a_conversion_without_a_zone_to_convert_to_is_refused() -> None:
    with pytest.raises(ArgumentsInvalidError) as refused:
        await asked(operation="convert", moment="2026-07-01T15:00")
    assert refused.value.path == "$.to_zone"


async def test_the_31st_becomes_the_last_day_of_a_shorter_month() -> None:
    assert await iso(operation="add", moment="2026-01-31", months=1) == "2026-02-28T00:00:00+00:00"
    assert await iso(operation="add", moment="2024-02-29", years=1) == "2025-02-28T00:00:00+00:00"
    assert await iso(operation="add", moment="2026-03-31", months=-13) == "2025-02-28T00:00:00+00:00"


async def test_days_keep_the_time_on_the_clock_and_hours_keep_the_time_that_passes() -> None:
    eve = {"operation": "add", "moment": "2026-03-28T10:00", "zone": "Europe/Berlin"}
    assert await iso(**eve, days=1) == "2026-03-29T10:00:00+02:00"
    assert await iso(**eve, hours=24) == "2026-03-29T11:00:00+02:00"


async def test_a_time_that_the_clocks_skip_is_read_by_the_offset_before() -> None:
    assert await iso(operation="add", moment="2026-03-29T02:30", zone="Europe/Berlin") == "2026-03-29T03:30:00+02:00"


async def test_of_a_time_that_comes_twice_the_first_is_meant() -> None:
    assert await iso(operation="add", moment="2026-10-25T02:30", zone="Europe/Berlin") == "2026-10-25T02:30:00+02:00"


async def test_the_days_between_two_dates_are_counted_by_the_calendar() -> None:
    answer = await asked(operation="difference", moment="2026-03-28", end="2026-03-30", zone="Europe/Berlin")
    assert isinstance(answer.structured, dict)
    assert answer.structured["calendar_days"] == 2
    assert answer.structured["seconds"] == 47 * 3600
    assert answer.text.startswith("1 day 23 h (2 calendar days")


async def test_a_difference_to_what_is_past_is_negative() -> None:
    answer = await asked(operation="difference", moment="@60", end="@0")
    assert isinstance(answer.structured, dict)
    assert (answer.structured["seconds"], answer.structured["calendar_days"]) == (-60, 0)
    assert answer.text.startswith("-1 min")


@pytest.mark.parametrize(
    "arguments",
    [
        {"operation": "add", "years": 8_000},
        {"operation": "add", "days": -999_999_999},
        {"operation": "add", "seconds": 10**9, "hours": 10**9},
        {"operation": "add", "months": -(10**9)},
        {"operation": "add", "moment": "0001-01-01", "zone": "Asia/Shanghai", "seconds": 1},
        {"operation": "convert", "moment": "9999-12-31T23:59", "to_zone": "Pacific/Kiritimati"},
        {"operation": "difference", "moment": "yesterday"},
        {"operation": "convert", "moment": "@999999999999", "to_zone": "UTC"},
        {"operation": "convert", "moment": "2026-02-30", "to_zone": "UTC"},
    ],
)
async def test_what_no_calendar_has_is_an_error_of_the_tool(arguments: dict[str, JsonValue]) -> None:
    assert (await asked(**arguments)).is_error


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"operation": "guess"}, "$.operation"),
        ({"days": 1.5}, "$.days"),
        ({"days": True}, "$.days"),
        ({"zone": 8}, "$.zone"),
        ({"when": "now"}, "$.when"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_with_their_place(
    arguments: dict[str, JsonValue], path: str
) -> None:
    with pytest.raises(ArgumentsInvalidError) as refused:
        await asked(**arguments)
    assert refused.value.path == path


@given(st.text(max_size=64), st.text(max_size=64))
def test_any_text_is_a_moment_and_a_zone_or_has_a_reason(zone: str, moment: str) -> None:
    with suppress(BuiltinFailedError):
        assert NOW.astimezone(parse_zone(zone)) == NOW
    with suppress(BuiltinFailedError):
        assert parse_moment(moment, UTC).tzinfo is UTC


@given(st.integers(-(10**9), 10**10), st.sampled_from(["Asia/Shanghai", "America/Lima"]))
def test_a_moment_in_iso_is_read_back(seconds: int, zone: str) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)
    assert parse_moment(moment.astimezone(parse_zone(zone)).isoformat(), UTC) == moment
