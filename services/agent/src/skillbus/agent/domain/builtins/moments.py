"""Moments in time and the zones they are told in.

Days, weeks, months and years are added to the calendar of the zone: ten o'clock stays ten o'clock over a change of the
clocks. Hours, minutes and seconds are added to the time that passes. A local time that the clocks skip is read by the
offset before the change, and of one that comes twice the first is meant (RFC 5545, 3.3.5).
"""

import calendar
import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from skillbus.agent.domain.builtins.errors import ToolFailedError

_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?", re.ASCII)
_EPOCH: Final = re.compile(r"@(-?\d{1,12})", re.ASCII)

_OUT_OF_YEARS: Final = "the result is not between the years 1 and 9999"


def zone_of(name: str) -> tzinfo:
    """A zone by its name in the IANA database, or an offset such as +08:00 or UTC+8. Raises ToolFailedError."""
    if name.upper() in {"UTC", "GMT", "Z"}:
        return UTC
    if offset := _OFFSET.fullmatch(name):
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ToolFailedError(
            f"there is no time zone {name[:60]!r}: use a name such as Asia/Shanghai or Europe/Berlin, or +08:00"
        ) from None


def moment_of(text: str, zone: tzinfo) -> datetime:
    """A moment from ISO 8601 text, `@` and seconds since 1970, or a date alone (its midnight), told in the zone.

    What names no zone of its own is meant in this one. Raises ToolFailedError.
    """
    text = text.strip()
    try:
        if epoch := _EPOCH.fullmatch(text):
            return datetime.fromtimestamp(int(epoch[1]), zone)
        read = datetime.fromisoformat(text)
        return read.astimezone(zone) if read.tzinfo else shown_by_clocks(read.replace(tzinfo=zone))
    except (ValueError, OverflowError, OSError):
        raise ToolFailedError(
            f"{text[:60]!r} is no moment that can be read: write it like 2026-03-31, 2026-03-31T18:30 or "
            "2026-03-31T18:30:00+08:00"
        ) from None


def converted(moment: datetime, zone: tzinfo) -> datetime:
    """The same moment as another zone tells it. Raises ToolFailedError."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        raise ToolFailedError(_OUT_OF_YEARS) from None


def shown_by_clocks(moment: datetime) -> datetime:
    """The moment as the clocks of its zone show it: another local time only where they skip it."""
    return moment.astimezone(UTC).astimezone(moment.tzinfo)


def moved(moment: datetime, *, months: int, days: int, seconds: int) -> datetime:
    """First the months, to the last day of a shorter one; then the days; then the time that passes.

    Raises:
        ToolFailedError: The result is before the year 1 or after 9999.
    """
    try:
        day = _months_later(moment.date(), months) + timedelta(days=days)
        local = datetime.combine(day, time(moment.hour, moment.minute, moment.second, moment.microsecond))
        there = shown_by_clocks(local.replace(tzinfo=moment.tzinfo)) if months or days else moment
        return (there.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(moment.tzinfo)
    except (ValueError, OverflowError):
        raise ToolFailedError(_OUT_OF_YEARS) from None


def _months_later(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def in_words(duration: timedelta) -> str:
    """Like `-2 days 3 h 4 min 5 s`, every unit that is not zero."""
    seconds = abs(int(duration.total_seconds()))
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "day" if days == 1 else "days"), (hours, "h"), (minutes, "min"), (rest, "s")]
    words = " ".join(f"{count} {unit}" for count, unit in parts if count) or "0 s"
    return f"-{words}" if duration < timedelta(0) and seconds else words
