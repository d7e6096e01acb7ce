"""Page of statistics, as a browser gets it."""

import json
import re
from datetime import UTC, date, datetime

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.usage import (
    GET_KNOWLEDGE_STATS,
    DailyUsage,
    GetKnowledgeStats,
    HelpfulRate,
    ItemUsage,
    KnowledgeStats,
    UnansweredQuery,
)

from .fakes import KEY, World
from .page_visits import EVIL, assert_harmless, get_page

ID = "01890000-0000-7000-8000-000000000000"
NOW = datetime(2026, 1, 2, tzinfo=UTC)
RATE = HelpfulRate(share=0.75, low=0.3, high=0.95, count=4)
ITEM = ItemUsage(id=ID, title=EVIL, shown=7, applied=2, rate=RATE, last_used_at=NOW)
STATS = KnowledgeStats(
    project="default",
    total=3,
    by_status={},
    by_type={},
    unindexed=0,
    searches=12,
    contexts=5,
    feedback=RATE,
    most_used=(ITEM,),
    never_used=(ITEM.model_copy(update={"last_used_at": None, "rate": None}),),
    never_used_count=9,
    stale=(ITEM,),
    stale_count=1,
    least_helpful=(ITEM,),
    unanswered=(UnansweredQuery(query=EVIL, count=3, last_at=NOW),),
    daily=(
        DailyUsage(day=date(2026, 1, 1)),
        DailyUsage(day=date(2026, 1, 2), searches=4, contexts=1, uses=6, unanswered=2, feedback=RATE),
    ),
)


@pytest.fixture
def world() -> World:
    made = World(key=KEY)
    made.caller.on(GET_KNOWLEDGE_STATS, lambda _: STATS)
    return made


async def test_no_title_and_no_query_becomes_markup(world: World) -> None:
    answer = await get_page(world, "/statistics")
    assert_harmless(answer)


async def test_the_period_is_in_the_address_and_the_reports_are_those_of_the_project(world: World) -> None:
    page = await get_page(world, "/statistics?project=shop&days=7&stale_after_days=45")
    asked = world.caller.asked[-1][1]
    assert asked == GetKnowledgeStats(project="shop", days=7, stale_after_days=45, limit=10)
    assert '<option value="7" selected>' in page.text
    assert '<option value="45" selected>' in page.text
    assert f'href="/knowledge/{ID}?project=shop"' in page.text
    assert 'href="/search?project=shop&amp;kind=knowledge&amp;query=' in page.text


@pytest.mark.parametrize("query", ["days=8", "days=x", "stale_after_days=0"])
async def test_a_period_that_is_not_offered_is_refused(world: World, query: str) -> None:
    assert (await get_page(world, f"/statistics?{query}")).status_code == 400


async def test_every_plot_has_a_table_with_the_same_figures(world: World) -> None:
    page = (await get_page(world, "/statistics")).text
    block = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page)
    assert block is not None
    figures = json.loads(block[1])
    assert figures["days"] == [datetime(2026, 1, day, tzinfo=UTC).timestamp() for day in (1, 2)]
    assert (figures["searches"], figures["unanswered"], figures["low"]) == ([0, 4], [0, 2], [None, 0.3])
    for plot in ("requests", "votes"):
        assert f'data-plot="{plot}"' in page
        assert f'data-testid="{plot}-table"' in page
    row = re.search(r'<th scope="row">2026-01-02</th>(.*?)</tr>', page)
    assert row is not None
    assert re.findall(r">(\d+)</td>", row[1]) == ["4", "1", "6", "2"]
    assert "30 % – 95 %" in page


async def test_without_requests_and_votes_there_is_no_plot(world: World) -> None:
    empty = KnowledgeStats(
        project="default", total=0, by_status={}, by_type={}, unindexed=0, searches=0, contexts=0, daily=STATS.daily[:1]
    )
    world.caller.on(GET_KNOWLEDGE_STATS, lambda _: empty)
    page = (await get_page(world, "/statistics", **{"Accept-Language": "zh"})).text
    assert "data-plot" not in page
    assert 'data-testid="no-requests"' in page
    assert 'data-testid="no-votes"' in page
    assert "还没有条目。" in page


async def test_a_learner_that_is_down_is_named_with_its_code(world: World) -> None:
    away = RequestError(ErrorCode.UNAVAILABLE, "No learner is running.")
    world.caller.on(GET_KNOWLEDGE_STATS, lambda _: away)
    answer = await get_page(world, "/statistics")
    assert (answer.status_code, "No learner is running." in answer.text) == (503, True)
    assert "<code>unavailable</code>" in answer.text


async def test_only_this_page_loads_the_plots(world: World) -> None:
    assert "vendor/uplot.min.js" in (await get_page(world, "/statistics")).text
    assert "uplot" not in (await get_page(world, "/context")).text
