"""The tool `datetime`."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from skillbus.agent.domain.builtins.moments import (
    convert_moment,
    describe_duration,
    parse_moment,
    parse_zone,
    shift_moment,
)
from skillbus.agent.domain.builtins.tool import BuiltinAnswer, BuiltinArguments, BuiltinProfile, FunctionTool
from skillbus.agent.domain.errors import ArgumentsInvalidError

Clock = Callable[[], datetime]
"""Returns the current time with a zone."""

_Zone = Annotated[str, Field(min_length=1, max_length=64)]
_Moment = Annotated[str, Field(min_length=1, max_length=64)]
_Count = Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)]
_WEEKDAYS: Final = ("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日")


class DateTimeArguments(BuiltinArguments):
    operation: Annotated[
        Literal["now", "convert", "add", "difference"],
        Field(
            description="`now`: the current time in `zone`. `convert`: `moment` in `to_zone`. `add`: `moment`, "
            "or now, with years, months, … added. `difference`: from `moment` to `end`."
        ),
    ] = "now"
    zone: Annotated[
        _Zone, Field(description="Time zone such as Asia/Shanghai or +08:00, of the result and of moments without one.")
    ] = "UTC"
    moment: Annotated[
        _Moment | None,
        Field(description="ISO 8601 such as 2026-03-31T18:30, or a date alone; the current time if absent."),
    ] = None
    to_zone: Annotated[_Zone | None, Field(description="Zone to convert to.")] = None
    end: Annotated[
        _Moment | None, Field(description="The later moment of a difference; the current time if absent.")
    ] = None
    years: Annotated[_Count, Field(description="Years to add; negative ones are subtracted, as with all of these.")] = 0
    months: Annotated[_Count, Field(description="Months to add; the 31st becomes the last day of a shorter month.")] = 0
    weeks: Annotated[_Count, Field(description="Weeks to add.")] = 0
    days: Annotated[_Count, Field(description="Days to add.")] = 0
    hours: Annotated[_Count, Field(description="Hours to add.")] = 0
    minutes: Annotated[_Count, Field(description="Minutes to add.")] = 0
    seconds: Annotated[_Count, Field(description="Seconds to add.")] = 0


ABOUT: Final = BuiltinProfile(
    name="datetime",
    english="Tell the current date and time in any time zone, convert between zones, add to a date, or count the days "
    "and hours between two.",
    chinese="日期时间：查询任意时区的当前时间和日期（现在几点、今天几号、星期几），换算时区，推算日期，计算两个日期相差多久。",
    tags=("time", "date", "timezone", "时间", "日期", "时区"),
    examples=(
        "What time is it now in New York?",
        "What date is 45 days from today?",
        "How many days are there between 2026-01-15 and 2026-06-30?",
        "现在几点了？今天星期几",
        "北京时间下午三点是伦敦几点",
        "距离 2027 年元旦还有多少天",
    ),
)


def make_datetime_tool(clock: Clock) -> FunctionTool[DateTimeArguments]:
    """Make the tool with a clock."""

    async def run(_project: str, arguments: DateTimeArguments) -> BuiltinAnswer:
        return _compute_answer(arguments, clock())

    return FunctionTool(ABOUT, DateTimeArguments, run)


def _compute_answer(arguments: DateTimeArguments, now: datetime) -> BuiltinAnswer:
    zone = parse_zone(arguments.zone)
    now = now.astimezone(zone)
    moment = parse_moment(arguments.moment, zone) if arguments.moment else now
    match arguments.operation:
        case "now":
            return describe_moment(now)
        case "convert":
            if arguments.to_zone is None:
                raise ArgumentsInvalidError("name the zone to convert to", "$.to_zone")
            return describe_moment(convert_moment(moment, parse_zone(arguments.to_zone)))
        case "add":
            return describe_moment(
                shift_moment(
                    moment,
                    months=12 * arguments.years + arguments.months,
                    days=7 * arguments.weeks + arguments.days,
                    seconds=3_600 * arguments.hours + 60 * arguments.minutes + arguments.seconds,
                )
            )
        case "difference":
            return describe_difference(moment, parse_moment(arguments.end, zone) if arguments.end else now)


def describe_moment(moment: datetime) -> BuiltinAnswer:
    """Describe a moment for people and programs, to the second."""
    moment = moment.replace(microsecond=0)
    iso = moment.isoformat()
    about: dict[str, JsonValue] = {
        "iso": iso,
        "date": moment.date().isoformat(),
        "time": moment.time().isoformat(),
        "weekday": f"{moment:%A}",
        "zone": str(moment.tzinfo),
        "utc_offset": f"{moment:%z}",
        "unix": int(moment.timestamp()),
        "iso_week": moment.isocalendar().week,
        "day_of_year": moment.timetuple().tm_yday,
    }
    return BuiltinAnswer(f"{iso} {moment:%A} {_WEEKDAYS[moment.weekday()]} ({moment.tzinfo})", about)


def describe_difference(start: datetime, end: datetime) -> BuiltinAnswer:
    """Describe the elapsed time and the number of calendar days."""
    passed = end.astimezone(UTC) - start.astimezone(UTC)
    days = (end.date() - start.date()).days
    about: dict[str, JsonValue] = {
        "seconds": int(passed.total_seconds()),
        "calendar_days": days,
        "start": start.isoformat(),
        "end": end.isoformat(),
    }
    return BuiltinAnswer(
        f"{describe_duration(passed)} ({days} calendar days, from {start.isoformat()} to {end.isoformat()})", about
    )
