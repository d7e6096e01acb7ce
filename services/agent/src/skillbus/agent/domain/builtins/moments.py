"""Parsing, conversion and arithmetic of moments in time zones.

Days, weeks, months and years are added to the local calendar: ten o'clock stays ten o'clock across a clock change.
Hours, minutes and seconds are added to the elapsed time. A local time that the clocks skip is read with the offset
before the change; a local time that occurs twice means the first one (RFC 5545, 3.3.5).
"""

import calendar
import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from skillbus.agent.domain.errors import BuiltinFailedError

_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?", re.ASCII)
_EPOCH: Final = re.compile(r"@(-?\d{1,12})", re.ASCII)

_OUT_OF_YEARS: Final = "the result is not between the years 1 and 9999"


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

    Raises:
        BuiltinFailedError: The result is before the year 1 or after 9999.
    """
    try:
        day = _add_months(moment.date(), months) + timedelta(days=days)
        local = datetime.combine(day, time(moment.hour, moment.minute, moment.second, moment.microsecond))
        there = normalize_local_time(local.replace(tzinfo=moment.tzinfo)) if months or days else moment
        return (there.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(moment.tzinfo)
    except (ValueError, OverflowError):
        raise BuiltinFailedError(_OUT_OF_YEARS) from None


def _add_months(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def describe_duration(duration: timedelta) -> str:
    """Describe a duration as in `-2 days 3 h 4 min 5 s`, leaving out units that are zero."""
    seconds = abs(int(duration.total_seconds()))
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "day" if days == 1 else "days"), (hours, "h"), (minutes, "min"), (rest, "s")]
    words = " ".join(f"{count} {unit}" for count, unit in parts if count) or "0 s"
    return f"-{words}" if duration < timedelta(0) and seconds else words
