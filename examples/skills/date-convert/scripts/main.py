"""Describes, shifts and compares dates given as {"date", "add"?, "until"?}."""

import calendar
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

from skillio import Arguments, SkillError, run
from workdays import Calendar, load_calendar

WEEKDAYS = "一二三四五六日"
FORMATS = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%Y%m%d",
    "%Y年%m月%d日",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
)
UNITS = ("years", "months", "weeks", "days", "workdays")
MILLISECONDS_FROM = 10**11  # a stamp in seconds this large would lie beyond the year 5000


def convert(arguments: Arguments) -> dict[str, object]:
    start = parse(arguments.get("date"), "date")
    holidays = load_calendar()
    day = shifted(start, steps_of(arguments), holidays)
    result = describe(day, holidays)
    if "until" in arguments:
        result |= distance(day, parse(arguments["until"], "until"), holidays)
    return result


def parse(value: object, key: str) -> date:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return from_stamp(float(value))
    if not isinstance(value, str) or not value.strip():
        raise SkillError(f"argument {key!r} must be a date such as 2026-09-30 or 2026年9月30日")
    text = re.sub(r"\s+", " ", value.strip())
    if re.fullmatch(r"-?\d{9,10}|\d{12,13}", text):
        return from_stamp(float(text))
    for form in FORMATS:
        with suppress(ValueError):
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a calendar day has no zone
    with suppress(ValueError):
        return datetime.fromisoformat(text).date()
    raise SkillError(f"{text[:60]!r} is not a date; write it like 2026-09-30 or 2026年9月30日")


def from_stamp(stamp: float) -> date:
    try:
        seconds = stamp / 1000 if abs(stamp) >= MILLISECONDS_FROM else stamp
        return datetime.fromtimestamp(seconds, UTC).date()
    except (ValueError, OverflowError, OSError):
        raise SkillError(f"the time stamp {stamp:g} lies outside the years 1 to 9999") from None


def steps_of(arguments: Arguments) -> Mapping[str, int]:
    steps = arguments.get("add", {})
    if not isinstance(steps, dict) or not set(steps) <= set(UNITS):
        raise SkillError(f"argument 'add' must be an object with any of: {', '.join(UNITS)}")
    if not all(isinstance(count, int) and not isinstance(count, bool) for count in steps.values()):
        raise SkillError("the numbers in 'add' must be whole")
    if abs(steps.get("workdays", 0)) > 2000:
        raise SkillError("'workdays' must lie between -2000 and 2000")
    return steps


def shifted(day: date, steps: Mapping[str, int], holidays: Calendar) -> date:
    try:
        day = add_months(day, 12 * steps.get("years", 0) + steps.get("months", 0))
        day += timedelta(weeks=steps.get("weeks", 0), days=steps.get("days", 0))
    except (ValueError, OverflowError):
        raise SkillError("the date leaves the years 1 to 9999") from None
    return holidays.shift(day, steps.get("workdays", 0))


def add_months(day: date, months: int) -> date:
    """The same day of a later month, or that month's last day when it is shorter."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise ValueError(year)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def describe(day: date, holidays: Calendar) -> dict[str, object]:
    iso = day.isocalendar()
    return {
        "date": day.isoformat(),
        "chinese": f"{day.year}年{day.month}月{day.day}日",
        "weekday": f"星期{WEEKDAYS[day.weekday()]}",
        "iso_week": f"{iso.year}-W{iso.week:02}",
        "day_of_year": day.timetuple().tm_yday,
        "quarter": (day.month + 2) // 3,
        "leap_year": calendar.isleap(day.year),
        "is_workday": holidays.is_workday(day) if day.year in holidays.years else None,
        "holiday": holidays.holidays.get(day),
        "adjusted_workday": day in holidays.workdays,
    }


def distance(start: date, end: date, holidays: Calendar) -> dict[str, object]:
    known = {start.year, end.year} <= holidays.years
    return {
        "until": end.isoformat(),
        "days": (end - start).days,
        "workdays": holidays.count(start, end) if known else None,
    }


if __name__ == "__main__":
    run(convert)
