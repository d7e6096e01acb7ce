"""The tool `datetime`.

Days, weeks, months and years are added to the local calendar: ten o'clock stays ten o'clock across a clock change.
Hours, minutes and seconds are added to the elapsed time. A local time that the clocks skip is read with the offset
before the change; a local time that occurs twice means the first one (RFC 5545, 3.3.5).
"""

import calendar
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, JsonValue

from skillbus.agent.domain.builtins.tool import BuiltinArguments, BuiltinProfile, BuiltinTool, make_tool
from skillbus.agent.domain.errors import ArgumentsInvalidError, BuiltinFailedError
from skillbus.agent.domain.tool_answer import ToolAnswer

_Zone = Annotated[str, Field(min_length=1, max_length=64)]
_Moment = Annotated[str, Field(min_length=1, max_length=64)]
_Count = Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)]
_WEEKDAYS: Final = ("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日")
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?", re.ASCII)
_EPOCH: Final = re.compile(r"@(-?\d{1,12})", re.ASCII)

_OUT_OF_YEARS: Final = "the result is not between the years 1 and 9999"


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


def make_datetime_tool(clock: Callable[[], datetime]) -> BuiltinTool:
    async def run(_project: str, arguments: DateTimeArguments) -> ToolAnswer:
        return _compute_answer(arguments, clock())

    return make_tool(ABOUT, DateTimeArguments, run)


def _compute_answer(arguments: DateTimeArguments, now: datetime) -> ToolAnswer:
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


def describe_moment(moment: datetime) -> ToolAnswer:
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
    return ToolAnswer(f"{iso} {moment:%A} {_WEEKDAYS[moment.weekday()]} ({moment.tzinfo})", structured=about)


def describe_difference(start: datetime, end: datetime) -> ToolAnswer:
    """Describe the elapsed time and the number of calendar days."""
    passed = end.astimezone(UTC) - start.astimezone(UTC)
    days = (end.date() - start.date()).days
    about: dict[str, JsonValue] = {
        "seconds": int(passed.total_seconds()),
        "calendar_days": days,
        "start": start.isoformat(),
        "end": end.isoformat(),
    }
    text = f"{describe_duration(passed)} ({days} calendar days, from {start.isoformat()} to {end.isoformat()})"
    return ToolAnswer(text, structured=about)


def parse_zone(name: str) -> tzinfo:
    """Return a zone by its IANA name or by an offset such as +08:00 or UTC+8. Raises BuiltinFailedError."""
    if name.upper() in {"UTC", "GMT", "Z"}:
        return UTC
    if offset := _OFFSET.fullmatch(name):
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BuiltinFailedError(
            f"there is no time zone {name[:60]!r}: use a name such as Asia/Shanghai or Europe/Berlin, or +08:00"
        ) from None


def parse_moment(text: str, zone: tzinfo) -> datetime:
    """Parse ISO 8601 text, `@` and seconds since 1970, or a date alone (its midnight), and convert it to the zone.

    Text without a zone is local time of `zone`. Raises BuiltinFailedError.
    """
    text = text.strip()
    try:
        if epoch := _EPOCH.fullmatch(text):
            return datetime.fromtimestamp(int(epoch[1]), zone)
        read = datetime.fromisoformat(text)
        return read.astimezone(zone) if read.tzinfo else normalize_local_time(read.replace(tzinfo=zone))
    except (ValueError, OverflowError, OSError):
        raise BuiltinFailedError(
            f"{text[:60]!r} is not a time: write it like 2026-03-31, 2026-03-31T18:30 or 2026-03-31T18:30:00+08:00"
        ) from None


def convert_moment(moment: datetime, zone: tzinfo) -> datetime:
    """Return the same moment in another zone. Raises BuiltinFailedError."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        raise BuiltinFailedError(_OUT_OF_YEARS) from None


def normalize_local_time(moment: datetime) -> datetime:
    """Return the moment as the clocks of its zone show it. It differs only for local times that they skip."""
    return moment.astimezone(UTC).astimezone(moment.tzinfo)


def shift_moment(moment: datetime, *, months: int, days: int, seconds: int) -> datetime:
    """Add months (the 31st becomes the last day of a shorter month), then days, then elapsed seconds.

    Raises BuiltinFailedError if the result is before the year 1 or after 9999.
    """
    try:
        year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
        last = calendar.monthrange(year, month + 1)[1] if 1 <= year <= 9999 else 0
        day = date(year, month + 1, min(moment.day, last)) + timedelta(days=days)
        local = datetime.combine(day, time(moment.hour, moment.minute, moment.second, moment.microsecond))
        there = normalize_local_time(local.replace(tzinfo=moment.tzinfo)) if months or days else moment
        return (there.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(moment.tzinfo)
    except (ValueError, OverflowError):
        raise BuiltinFailedError(_OUT_OF_YEARS) from None


def describe_duration(duration: timedelta) -> str:
    """Describe a duration as in `-2 days 3 h 4 min 5 s`, leaving out units that are zero."""
    seconds = abs(int(duration.total_seconds()))
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "day" if days == 1 else "days"), (hours, "h"), (minutes, "min"), (rest, "s")]
    words = " ".join(f"{count} {unit}" for count, unit in parts if count) or "0 s"
    return f"-{words}" if duration < timedelta(0) and seconds else words
