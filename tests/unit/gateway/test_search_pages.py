"""Pages of searches, contexts and spoken commands, as a browser gets them."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.devices import LIST_HOMES, HomesListed, HomeSummary
from skillbus.contracts.indexer.tools import LIST_TOOLS, ToolsListed
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.command_resolution import (
    RESOLVE_COMMAND,
    SEARCH_COMMANDS,
    CommandHit,
    CommandResolved,
    CommandSearchExplanation,
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
    OmittedItem,
    OmittedItems,
    ScoreFactors,
)
from skillbus.contracts.retriever.query_ir import Quantifier, QueryArguments, QueryIR, Reference
from skillbus.contracts.retriever.search_explanation import (
    DroppedHit,
    DroppedHits,
    MatchReason,
    ScoreParts,
    SearchStage,
)
from skillbus.contracts.retriever.tool_search import (
    SEARCH_TOOLS,
    SearchTools,
    ToolHit,
    ToolSearchExplanation,
    ToolsFound,
)
from skillbus.evaluation.cases import load_cases
from skillbus.evaluation.installed import InstalledKind, load_installed_cases
from skillbus.evaluation.knowledge_cases import load_knowledge_cases
from skillbus.evaluation.queryir.command_queries import CommandQuery
from skillbus.gateway.service.pages.languages import load_messages
from skillbus.gateway.service.pages.rendering import ASSETS

from .fakes import KEY, World
from .page_visits import EVIL, assert_harmless, get_page
from .test_knowledge_pages import ITEM

PARTS = ScoreParts(dense=None, lexical=1.25, likeness=-0.5, meaning=3.0, fused=0.7)
DROPPED = DroppedHits(cause="over_limit", count=25, first=(DroppedHit(id=EVIL, title=EVIL, score=0.3, cosine=0.2),))
ELSEWHERE = DroppedHits(cause="other_scope", count=1, first=(DroppedHit(id="01890000", title=EVIL),))
FILTERED = SearchStage(name="filter", took_ms=0.3, candidates=40)
CANDIDATES = SearchStage(name="candidates", took_ms=0.3, candidates=21)
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
            parts=PARTS,
            repeats=EVIL,
        ),
    ),
    took_ms=2,
    model=EVIL,
    degraded="lexical",
    explanation=ToolSearchExplanation(
        stages=(*STAGES, FILTERED, CANDIDATES),
        indexed=100,
        threshold=0.2,
        below_threshold=7,
        best_score=0.5,
        terms=(EVIL,),
        dropped=(DROPPED,),
    ),
)
KNOWLEDGE = KnowledgeFound(
    results=(
        KnowledgeHit(
            item=ITEM,
            score=0.5,
            cosine=0.4,
            reasons=(REASON,),
            factors=ScoreFactors(scope=0.3),
            relevance=0.4,
            parts=PARTS,
        ),
    ),
    request_id="r",
    took_ms=2,
    explanation=KnowledgeSearchExplanation(
        stages=(FILTERED,), threshold=0.2, below_threshold=7, not_shown=3, other_scopes=4, dropped=(ELSEWHERE,)
    ),
)
COMMANDS = CommandsFound(
    results=(
        CommandHit(id=EVIL, capability=EVIL, command="d", description={"en": EVIL}, score=0.9, cosine=0.8, parts=PARTS),
    ),
    took_ms=2,
    explanation=CommandSearchExplanation(stages=STAGES, indexed=9, threshold=0, dropped=(DROPPED,)),
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
    omitted=OmittedItems(
        over_budget=2,
        alike=1,
        ids=("x",),
        first=(OmittedItem(id="x", title=EVIL, reason="over_budget", score=0.3, priority=5),),
    ),
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


HIT = TOOLS.results[0]


def list_searches(world: World) -> list[Message]:
    """Return the searches that the page asked for, in their order."""
    return [asked for name, asked in world.caller.asked if name.startswith("search_")]


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


@pytest.mark.parametrize(
    "path",
    [*(f"/search?query=x&kind={kind}" for kind in ("tools", "knowledge", "commands")), "/context?query=x", RESOLVE],
)
async def test_no_text_that_was_found_becomes_markup(world: World, path: str) -> None:
    answer = await get_page(world, path)
    assert_harmless(answer)


@pytest.mark.parametrize("path", ["/search", "/context", "/context/resolve"])
async def test_without_a_query_the_form_alone_is_shown_and_nothing_is_searched(world: World, path: str) -> None:
    answer = await get_page(world, path)
    assert answer.status_code == 200
    assert {type(asked).__name__ for _, asked in world.caller.asked} <= {"ListHomes"}


async def test_a_search_shows_scores_reasons_stages_and_what_was_dropped(world: World) -> None:
    tools = (await get_page(world, "/search?query=x&threshold=0.1&limit=3")).text
    asked = list_searches(world)[0].model_dump(exclude_defaults=True)
    assert asked == {"query": "x", "limit": 3, "threshold": 0.1, "explain": True}
    for shown in (
        "0.500",
        "#1 · BM25 2.500",
        "+1.25",
        "-0.50",
        "Repeats another",
        "only words were compared",
    ):
        assert shown in tools, shown
    assert "beyond the number of hits <b>25" in tools
    assert "filtered out <b>60" in tools
    assert "not among the nearest <b>19" in tools
    knowledge = (await get_page(world, "/search?kind=knowledge&query=x")).text
    for shown in ("+0.30", "of another scope <b>4", "scope does not apply <b>1"):
        assert shown in knowledge, shown
    commands = (await get_page(world, "/search?kind=commands&query=x&types=switch,lock")).text
    assert list_searches(world)[-1].model_dump()["capabilities"] == ("switch", "lock")
    assert "+3.00" in commands


async def test_the_filters_of_the_address_are_those_of_the_search(world: World) -> None:
    await get_page(world, "/search?query=x&types=mcp,skill&tags=a，b&source=git&side=lexical&threshold=0")
    await get_page(world, "/search?kind=knowledge&query=x&types=note&scope=/api/*&source=manual")
    tools, knowledge = (one.model_dump(exclude_defaults=True) for one in list_searches(world))
    assert tools == {
        "query": "x",
        "threshold": 0.0,
        "tool_types": ("mcp", "skill"),
        "tags": ("a", "b"),
        "sources": ("git",),
        "side": "lexical",
        "explain": True,
        "limit": 10,
    }
    assert (knowledge["types"], knowledge["scope"], knowledge["sources"]) == (("note",), "/api/*", ("manual",))


async def test_two_configurations_stand_side_by_side_with_the_differences_of_their_ranks(world: World) -> None:
    def answer(asked: SearchTools) -> ToolsFound:
        ids = ("a", "b", "c") if asked.side is None else ("c", "a", "d")
        return TOOLS.model_copy(update={"results": tuple(HIT.model_copy(update={"id": one}) for one in ids)})

    world.caller.on(SEARCH_TOOLS, answer)
    page = (await get_page(world, "/search?query=x&compare=true&b_side=lexical&b_limit=7&threshold=0")).text
    moved = re.findall(r'data-testid="moved">([^<]*)', page)
    assert moved == ["only here", "up 2", "down 1", "only here"]
    first, second = (one.model_dump() for one in list_searches(world))
    assert (first["side"], first["limit"], second["side"], second["limit"]) == (None, 10, "lexical", 7)
    assert 'name="b_limit" type="number" min="1" max="100" value="7"' in page
    single = (await get_page(world, "/search?query=x&threshold=0&side=dense")).text
    assert "compare=true&amp;b_threshold=0.0&amp;b_side=dense" in single


async def test_a_configuration_that_cannot_be_searched_says_why_and_the_other_is_shown(world: World) -> None:
    page = await get_page(world, "/search?query=x&compare=true&b_types=nonsense")
    assert page.status_code == 200
    assert page.text.count('data-testid="hits"') == 1
    assert "invalid_request" in page.text
    assert 'value="nonsense"' in page.text


def compose_line(page: str) -> str:
    """Return the line that the script keeps when the first hit is marked as right."""
    [line], [field] = re.findall(r' data-line="([^"]*)"', page), re.findall(r' data-field="([^"]*)"', page)
    [value, *_] = re.findall(r'form="keep" value="([^"]*)"', page)
    return json.dumps({**json.loads(unescape(line)), field: [json.loads(unescape(value))]}, ensure_ascii=False)


async def test_what_is_kept_of_a_search_is_read_by_the_evaluation(world: World, tmp_path: Path) -> None:
    """The corpus is what the searched catalogue holds."""
    for kind in ("tools", "knowledge", "commands"):
        page = (await get_page(world, f"/search?kind={kind}&query=提交代码&scope=/api")).text
        (tmp_path / f"{kind}.line").write_text(compose_line(page) + "\n", "utf-8")
    tool = {"id": HIT.id, "name": "commit", "description": "commit code"}
    (tmp_path / "tools.jsonl").write_text(json.dumps(tool), "utf-8")
    (case,) = load_cases(tmp_path / "tools.jsonl", tmp_path / "tools.line").cases
    assert (case.query, case.relevant) == ("提交代码", {HIT.id})

    (tmp_path / "docs.jsonl").write_text(json.dumps({"id": ITEM.id, "type": "note", "title": "t", "content": "c"}))
    (tmp_path / "knowledge.line").rename(tmp_path / "queries.jsonl")
    (asked,) = load_knowledge_cases(tmp_path).cases
    assert (asked.query, asked.scope, dict(asked.grades)) == ("提交代码", "/api", {ITEM.id: 1.0})

    kept = CommandQuery.model_validate_json((tmp_path / "commands.line").read_text("utf-8"))
    assert kept.expected_capability == (EVIL,)


async def test_the_page_names_the_command_that_evaluates_what_it_keeps(world: World, tmp_path: Path) -> None:
    for kind in InstalledKind:
        page = (await get_page(world, f"/search?kind={kind}&query=提交代码&scope=/api&project=acme")).text
        [file] = re.findall(r' data-file="([^"]*)"', page)
        assert f">skillbus eval installed {kind} {file} --project acme</code>" in page
        (tmp_path / file).write_text(compose_line(page) + "\n", "utf-8")
        (query,) = load_installed_cases(kind, tmp_path / file).queries
        right = {"tools": HIT.id, "knowledge": ITEM.id, "commands": EVIL}[kind]
        assert (query.text, query.right) == ("提交代码", {right})


async def test_entries_that_no_search_finds_are_counted_with_a_link_to_them(world: World) -> None:
    world.caller.on(LIST_TOOLS, lambda _: ToolsListed(tools=(), total=4))
    page = (await get_page(world, "/search?query=x")).text
    assert 'href="/tools?state=disabled">disabled or in quarantine: no search finds them</a> <b>4</b>' in page


async def test_looking_at_a_search_or_a_context_is_no_use_of_the_items(world: World) -> None:
    await get_page(world, "/search?kind=knowledge&query=x")
    await get_page(world, "/context?query=x&scope=/api/live/*&budget_tokens=100")
    searched, _, built = (asked for _, asked in world.caller.asked)
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
    assert page.count("<rect") == len(CONTEXT.items)
    assert 'class="tag">over the budget</span>' in page


async def test_a_spoken_command_shows_its_meaning_devices_candidates_and_question(world: World) -> None:
    page = (await get_page(world, RESOLVE)).text
    for part in ("query-ir", "devices", "candidates", "dropped", "question", "stages"):
        assert f'data-testid="{part}"' in page, part
    assert 'class="tag">name</span>' in page
    assert "[&#39;" not in page, "a list is shown as Python writes it"
    assert "客厅, 厨房" in page


def test_every_field_and_value_of_a_spoken_command_has_a_name_in_words() -> None:
    text = (ASSETS.parent / "templates" / "search" / "names.html").read_text("utf-8")
    named = dict(re.findall(r'^  "([^"]+)": "([^"]+)",$', text, re.MULTILINE))
    assert {*QueryIR.model_fields, *Quantifier, *Reference} <= named.keys()
    shown = {named.get(name, name) for name in QueryIR.model_fields} | {
        named.get(name, name) for name in QueryArguments.model_fields
    }
    assert shown <= load_messages("zh").keys()


async def test_a_spoken_command_names_no_field_of_the_contract(world: World) -> None:
    query = QueryIR(
        action="打开", action_code="turn_on", type_hint="light", quantifier="all", references=("last-mentioned",),
        arguments=QueryArguments(brightness_step=10, after_s=60), confidence=1,
    )  # fmt: skip
    found = RESOLVED.results[0].model_copy(update={"query": query})
    world.caller.on(RESOLVE_COMMAND, lambda _: RESOLVED.model_copy(update={"results": (found,)}))
    page = (await get_page(world, RESOLVE)).text
    assert "brightness step: 10.0, after, in seconds: 60.0" in page
    assert not re.search("action_code|type_hint|brightness_step|after_s|last-mentioned", page)


async def test_a_sentence_that_refers_to_something_is_resolved_in_its_session(world: World) -> None:
    page = (await get_page(world, f"{RESOLVE}&session=kitchen&parser=rules&threshold=0.3")).text
    asked = world.caller.asked[-1][1].model_dump(exclude_defaults=True)
    assert (asked["session"], asked["parser"], asked["threshold"]) == ("kitchen", "rules", 0.3)
    assert 'name="session" value="kitchen"' in page


async def test_without_a_home_the_page_says_how_to_put_one(world: World) -> None:
    world.caller.on(LIST_HOMES, lambda _: HomesListed(homes=(), total=0))
    page = await get_page(world, "/context/resolve?text=x")
    assert 'data-testid="no-home"' in page.text


async def test_a_store_that_is_away_is_an_error_page(world: World) -> None:
    world.caller.on(SEARCH_TOOLS, lambda _: RequestError(ErrorCode.VECTOR_STORE_UNAVAILABLE, "Qdrant is away."))
    answer = await get_page(world, "/search?query=x")
    assert answer.status_code == 503
    assert "vector_store_unavailable" in answer.text


@pytest.mark.parametrize(
    ("path", "subject", "typed"),
    [
        ("/context?query=refunds", BUILD_CONTEXT.subject, 'value="refunds"'),
        ("/context/resolve?text=lights", RESOLVE_COMMAND.subject, 'value="lights"'),
    ],
)
async def test_a_context_that_fails_shows_why_below_what_was_typed(
    world: World, path: str, subject: str, typed: str
) -> None:
    del world.caller.handlers[subject]
    answer = await get_page(world, path)
    assert answer.status_code == 503
    assert "<code>unavailable</code>" in answer.text
    assert typed in answer.text
