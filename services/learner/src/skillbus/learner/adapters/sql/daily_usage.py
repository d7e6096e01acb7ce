"""Requests and votes of a project by day."""

from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import Column, ColumnElement, Connection, func, select

from skillbus.contracts.learner.usage import DailyUsage
from skillbus.learner.adapters.sql.tables import FEEDBACK, REQUESTS
from skillbus.learner.domain.usage import estimate_rate


def load_daily_usage(connection: Connection, project: str, days: int, now: datetime) -> tuple[DailyUsage, ...]:
    """Return the last days in UTC, oldest first, also those without a request."""
    if days == 0:
        return ()
    today = now.astimezone(UTC).date()
    wanted = [today - timedelta(days=back) for back in reversed(range(days))]
    begin = datetime.combine(wanted[0], time(), UTC)
    requests = _load_requests(connection, project, begin)
    votes = _load_votes(connection, project, begin)
    return tuple(
        DailyUsage(day=day, **requests.get(day, {}), feedback=estimate_rate(*votes.get(day, (0, 0)))) for day in wanted
    )


def _load_requests(connection: Connection, project: str, begin: datetime) -> dict[date, dict[str, int]]:
    day = _take_day(connection, REQUESTS.c.at)
    columns = (day, REQUESTS.c.applied)
    without = func.count().filter(REQUESTS.c.uses == 0)
    rows = select(*columns, func.count(), func.sum(REQUESTS.c.uses), without).group_by(*columns)
    found: dict[date, dict[str, int]] = {}
    for name, applied, count, uses, unanswered in connection.execute(
        rows.where(REQUESTS.c.project == project, REQUESTS.c.at >= begin)
    ):
        one = found.setdefault(date.fromisoformat(name), {"uses": 0, "unanswered": 0})
        one["contexts" if applied else "searches"] = count
        one["uses"] += uses
        one["unanswered"] += unanswered
    return found


def _load_votes(connection: Connection, project: str, begin: datetime) -> dict[date, tuple[int, int]]:
    """Return the helpful and the unhelpful votes of each day."""
    day = _take_day(connection, FEEDBACK.c.at)
    helpful = func.count().filter(FEEDBACK.c.helpful)
    rows = select(day, helpful, func.count()).group_by(day)
    rows = rows.where(FEEDBACK.c.project == project, FEEDBACK.c.at >= begin)
    return {date.fromisoformat(name): (up, count - up) for name, up, count in connection.execute(rows)}


def _take_day(connection: Connection, at: Column[datetime]) -> ColumnElement[str]:
    """Return the day of a moment in UTC, as ISO 8601 writes it."""
    if connection.dialect.name == "postgresql":
        return func.to_char(func.timezone("UTC", at), "YYYY-MM-DD")
    return func.date(at)  # SQLite keeps moments in UTC, without a zone
