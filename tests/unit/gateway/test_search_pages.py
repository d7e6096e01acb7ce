"""Pages of searches, contexts and spoken commands, as a browser gets them."""

import re

import httpx
import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.devices import LIST_HOMES, HomesListed, HomeSummary
from skillbus.contracts.retriever.command_resolution import (
    RESOLVE_COMMAND,
    SEARCH_COMMANDS,
    CommandHit,
    CommandResolved,
    CommandsFound,
    DroppedDevice,
    RecalledDevice,
    ResolvedCommandCall,
    ResolvedDevice,
    ResolvedQuery,
)
from skillbus.contracts.retriever.knowledge_search import (
    BUILD_CONTEXT,
    SEARCH_KNOWLEDGE,
    ContextBuilt,
    ContextItem,
    KnowledgeFound,
    KnowledgeHit,
    KnowledgeSearchExplanation,
    OmittedItems,
    ScoreFactors,
)
from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.contracts.retriever.search_explanation import MatchReason, SearchStage
from skillbus.contracts.retriever.tool_search import (
    SEARCH_TOOLS,
    ToolHit,
    ToolSearchExplanation,
    ToolsFound,
)

from .fakes import KEY, World
from .test_knowledge_pages import EVIL, ITEM

STAGES = (SearchStage(name="embed", took_ms=1.5, candidates=0), SearchStage(name="rank", took_ms=0.5, candidates=21))
REASON = MatchReason(side="lexical", rank=1, score=2.5, terms=(EVIL,), parts=("name",))
TOOLS = ToolsFound(
    results=(
        ToolHit(
            id=EVIL,
            name=EVIL,
            description=EVIL,
            score=0.5,
            cosine=None,
            tool_type="mcp",
            reasons=(REASON,),
            repeats=EVIL,
        ),
    ),
    took_ms=2,
    model=EVIL,
    degraded="lexical",
    explanation=ToolSearchExplanation(stages=STAGES, threshold=0.2, below_threshold=7, best_score=0.5, terms=(EVIL,)),
)
KNOWLEDGE = KnowledgeFound(
    results=(
        KnowledgeHit(
            item=ITEM, score=0.5, cosine=0.4, reasons=(REASON,), factors=ScoreFactors(scope=0.3), relevance=0.4
        ),
    ),
    request_id="r",
    took_ms=2,
    explanation=KnowledgeSearchExplanation(stages=STAGES, threshold=0.2, below_threshold=7, not_shown=3),
)
COMMANDS = CommandsFound(
    results=(CommandHit(id=EVIL, capability="c", command="d", description={"en": EVIL}, score=0.9, cosine=0.8),),
    took_ms=2,
)
CONTEXT = ContextBuilt(
    request_id="r",
    took_ms=2,
    text=EVIL,
    tokens=40,
    budget_tokens=100,
    counted_by=EVIL,
    items=(
        ContextItem(
            id=ITEM.id,
            version=1,
            project="default",
            type="note",
            title=EVIL,
            scope="",
            content=EVIL,
            score=0.5,
            priority=5,
            tokens=40,
        ),
    ),
    omitted=OmittedItems(over_budget=2, alike=1, ids=("x",)),
)
CALL = ResolvedCommandCall(
    id=EVIL, capability="c", command="d", description={"en": EVIL}, score=0.9, arguments={"level": EVIL}
)
DEVICE = {"id": "a", "name": EVIL, "room": EVIL, "type": "light", "reasons": ("name_hit",), "confidence": 0.9}
RESOLVED = CommandResolved(
    parsed_by="rules",
    model_problem=EVIL,
    took_ms=3,
    stages=STAGES,
    results=(
        ResolvedQuery(
            query=QueryIR(action=EVIL, name_hint=EVIL, scope_include=("客厅", "厨房"), confidence=1),
            status="ambiguous",
            devices=(ResolvedDevice(**DEVICE, command=CALL),),
            candidates=(RecalledDevice(**DEVICE),),
            dropped=(DroppedDevice(id="b", name=EVIL, reason="no_commands", detail=EVIL),),
            question=EVIL,
            confidence=0.5,
        ),
    ),
)
RESOLVE = "/context/resolve?text=x&home=h"


@pytest.fixture
def world() -> World:
    made = World(key=KEY)
    made.caller.on(SEARCH_TOOLS, lambda _: TOOLS)
    made.caller.on(SEARCH_KNOWLEDGE, lambda _: KNOWLEDGE)
    made.caller.on(SEARCH_COMMANDS, lambda _: COMMANDS)
    made.caller.on(BUILD_CONTEXT, lambda _: CONTEXT)
    made.caller.on(RESOLVE_COMMAND, lambda _: RESOLVED)
    homes = HomesListed(homes=(HomeSummary(home=EVIL, devices=3, rooms=1),), total=1)
    made.caller.on(LIST_HOMES, lambda _: homes)
    return made


async def get_page(world: World, path: str) -> httpx.Response:
    async with world.client() as client:
        return await client.get(path, headers={"Accept": "text/html"})


@pytest.mark.parametrize(
    "path",
    [*(f"/search?query=x&kind={kind}" for kind in ("tools", "knowledge", "commands")), "/context?query=x", RESOLVE],
)
async def test_no_text_that_was_found_becomes_markup(world: World, path: str) -> None:
    answer = await get_page(world, path)
    assert answer.status_code == 200, answer.text
    assert "&lt;script&gt;alert" in answer.text
    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text
    assert not re.search(r"\son[a-z]+=[\"']|\sstyle=", answer.text)


@pytest.mark.parametrize("path", ["/search", "/context", "/context/resolve"])
async def test_without_a_query_the_form_alone_is_shown_and_nothing_is_searched(world: World, path: str) -> None:
    answer = await get_page(world, path)
    assert answer.status_code == 200
    assert {type(asked).__name__ for _, asked in world.caller.asked} <= {"ListHomes"}


async def test_a_search_shows_scores_reasons_stages_and_what_was_dropped(world: World) -> None:
    tools = (await get_page(world, "/search?query=x&threshold=0.1&limit=3")).text
    asked = world.caller.asked[-1][1].model_dump(exclude_defaults=True)
    assert asked == {"query": "x", "limit": 3, "threshold": 0.1, "explain": True}
    for shown in ("0.500", "lexical #1", "2.500", "below it 7", "only words were compared"):
        assert shown in tools, shown
    knowledge = (await get_page(world, "/search?kind=knowledge&query=x")).text
    assert "refused by the record 3" in knowledge
    assert "scope +0.30" in knowledge


async def test_looking_at_a_search_or_a_context_is_no_use_of_the_items(world: World) -> None:
    await get_page(world, "/search?kind=knowledge&query=x")
    await get_page(world, "/context?query=x&scope=/api/live/*&budget_tokens=100")
    searched, built = (asked for _, asked in world.caller.asked)
    assert searched.model_dump()["record_use"] is False
    assert built.model_dump(exclude_defaults=True) == {
        "query": "x",
        "scope": "/api/live/*",
        "budget_tokens": 100,
        "record_use": False,
    }


async def test_a_context_shows_its_tokens_and_what_is_left_out(world: World) -> None:
    page = (await get_page(world, "/context?query=x")).text
    assert "40 of 100 tokens" in page
    assert "over the budget: 2" in page


async def test_a_spoken_command_shows_its_meaning_devices_candidates_and_question(world: World) -> None:
    page = (await get_page(world, RESOLVE)).text
    for part in ("query-ir", "devices", "candidates", "dropped", "question"):
        assert f'data-testid="{part}"' in page, part
    assert "name_hit" in page
    assert "[&#39;" not in page, "a list is shown as Python writes it"
    assert "客厅, 厨房" in page


async def test_without_a_home_the_page_says_how_to_put_one(world: World) -> None:
    world.caller.on(LIST_HOMES, lambda _: HomesListed(homes=(), total=0))
    page = await get_page(world, "/context/resolve?text=x")
    assert 'data-testid="no-home"' in page.text


async def test_a_store_that_is_away_is_an_error_page(world: World) -> None:
    world.caller.on(SEARCH_TOOLS, lambda _: RequestError(ErrorCode.VECTOR_STORE_UNAVAILABLE, "Qdrant is away."))
    answer = await get_page(world, "/search?query=x")
    assert answer.status_code == 503
    assert "vector_store_unavailable" in answer.text
