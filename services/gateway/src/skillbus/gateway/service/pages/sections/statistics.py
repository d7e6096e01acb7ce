"""Page of statistics: how knowledge is used, whether it helps, and what needs attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Annotated, Final, Literal

from fastapi import Query, Request, Response
from pydantic import Field

from skillbus.contracts.learner.usage import GET_KNOWLEDGE_STATS, DailyUsage, GetKnowledgeStats
from skillbus.contracts.message import ProjectMessage
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.pages.rendering import render_page

STATISTICS_PAGE: Final = "/statistics"
_PERIODS: Final = (7, 30, 90, 180)
_STALE: Final = (30, 90, 180, 365)
_REPORTED: Final = 10


class StatisticsPageQuery(ProjectMessage):
    """Period of the plots, and the age from which an item counts as stale."""

    days: Literal["7", "30", "90", "180"] = "30"
    stale_after_days: int = Field(default=90, ge=1, le=3_650)


@dataclass(frozen=True, slots=True)
class StatisticsPages:
    """Handler of the page of statistics."""

    caller: BusCaller

    async def show_statistics(self, request: Request, page: Annotated[StatisticsPageQuery, Query()]) -> Response:
        """Show plots and reports. The period is in the address."""
        wanted = GetKnowledgeStats(
            project=page.project, stale_after_days=page.stale_after_days, limit=_REPORTED, days=int(page.days)
        )
        stats = await self.caller.call(GET_KNOWLEDGE_STATS, wanted)
        context = {
            "stats": stats,
            "query": page,
            "periods": _PERIODS,
            "stale_ages": sorted({*_STALE, page.stale_after_days}),
            "figures": _list_figures(stats.daily),
            "has_requests": any(day.searches or day.contexts for day in stats.daily),
            "has_votes": any(day.feedback for day in stats.daily),
        }
        return render_page(request, "statistics/statistics.html", context, project=page.project)


def _list_figures(days: Sequence[DailyUsage]) -> dict[str, list[float | None]]:
    """Return the figures of the plots by column, with the days in Unix seconds."""
    votes = [day.feedback for day in days]
    return {
        "days": [datetime.combine(day.day, time(), UTC).timestamp() for day in days],
        "searches": [day.searches for day in days],
        "contexts": [day.contexts for day in days],
        "uses": [day.uses for day in days],
        "unanswered": [day.unanswered for day in days],
        "share": [None if vote is None else vote.share for vote in votes],
        "low": [None if vote is None else vote.low for vote in votes],
        "high": [None if vote is None else vote.high for vote in votes],
    }
