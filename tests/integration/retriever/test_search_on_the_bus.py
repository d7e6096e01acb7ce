"""Searches over the bus: what is searched, what is said about a hit, and which index is live."""

import pytest
from pydantic import JsonValue

from skillbus.common.testing import eventually
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.indexer.commands import PUT_COMMANDS, PutCommands
from skillbus.contracts.indexer.tool_approval import SET_TOOL_APPROVAL, SetToolApproval
from skillbus.contracts.indexer.tool_functions import DESCRIBE_TOOLS, DescribeTools, ToolFunction
from skillbus.contracts.indexer.tools import PUT_TOOLS, PutTools
from skillbus.contracts.message import Empty
from skillbus.contracts.retriever import HEALTH
from skillbus.contracts.retriever.command_resolution import SEARCH_COMMANDS, SearchCommands
from skillbus.vectors import DENSE, LEXICAL, CollectionSpec, models, point_id
from skillbus.vectors.datasets import TOOLS

from .conftest import Running, TopicModel


async def test_without_an_index_a_search_finds_an_empty_list(running: Running) -> None:
    """tool-type.md § 6.3 边界测试: 空结果"""
    found = await running.search("music")
    assert (found.results, found.degraded) == ((), None)


async def test_a_search_finds_what_is_meant_in_other_words(running: Running) -> None:
    """skill-vector-retrieval.md § 检索相关Skills"""
    await running.install("player", "Plays a song.")
    await running.install("forecast", "Tells whether rain comes.")
    best = (await running.search("天气")).results[0]
    assert best.name == "forecast"
    assert [reason.side for reason in best.reasons] == ["dense"]
    assert best.reasons[0].rank == 1
    assert best.reasons[0].score == best.cosine == pytest.approx(1.0, abs=0.02)


async def test_a_hit_by_words_says_which_of_the_querys_words_it_holds(running: Running) -> None:
    await running.install("zither", "Tunes a zither with pegs.")
    await running.install("player", "Plays a song.")
    best = (await running.search("zither with broken pegs")).results[0]
    assert best.name == "zither"
    lexical = {reason.side: reason for reason in best.reasons}["lexical"]
    assert lexical.rank == 1
    assert lexical.score > 0
    assert any(term.startswith("zither") for term in lexical.terms)
    assert not any(term.startswith("broken") for term in lexical.terms)


async def test_projects_find_only_their_own(running: Running) -> None:
    await running.install("player", "Plays a song.")
    await running.install("player", "Plays a song of another project.", project="other")
    await running.install("radio", "Plays music.", project="other")
    assert await running.found("music") == ["player"]
    assert sorted(await running.found("music", project="other")) == ["player", "radio"]
    assert await running.found("music", project="third") == []
    own = (await running.search("music")).results[0]
    assert own.description == "Plays a song."


async def test_only_tools_with_one_of_the_tags_are_found(running: Running) -> None:
    await running.install("player", "Plays a song.", tags=["audio", "fun"])
    await running.install("radio", "Plays music.", tags=["audio"])
    await running.install("singer", "Sings a song.")
    assert sorted(await running.found("music", tags=["audio"])) == ["player", "radio"]
    assert await running.found("music", tags=["fun", "other"]) == ["player"]
    assert await running.found("music", tags=["audi"]) == []


async def _put_tools(running: Running, collection: str, *tools: tuple[str, str | None]) -> None:
    """Points as the indexer makes them, of the tool types given; straight into a collection."""
    vector = TopicModel().embed(["music"], TextRole.DOCUMENT)[0].tolist()
    points = []
    for name, kind in tools:
        payload: dict[str, object] = {
            "project": "default",
            "tool_id": f"{kind}:{name}",
            "name": name,
            "description": "Plays music.",
            "tags": [],
            "metadata": {},
        }
        if kind is not None:
            payload["tool_type"] = kind
        vectors: dict[str, models.Vector] = {DENSE: vector, LEXICAL: models.SparseValues(indices=[1], values=[1.0])}
        points.append(
            models.PointStruct(id=point_id("default", str(payload["tool_id"])), vector=vectors, payload=payload)
        )
    await running.store.upsert(collection, points)


def _object(value: JsonValue) -> dict[str, JsonValue]:
    assert isinstance(value, dict)
    return value


async def _live(running: Running) -> str:
    collection = await running.store.resolve_alias(TOOLS.alias)
    assert collection is not None
    return collection


async def test_every_kind_of_tool_is_found_with_its_type(running: Running) -> None:
    """tool-type.md § 6.1 功能测试"""
    await running.install("player", "Plays a song.")
    await _put_tools(running, await _live(running), ("remote", "mcp"), ("calc", "builtin"), ("old", None))
    hits = {hit.name: hit for hit in (await running.search("music", limit=10)).results}
    kinds = {name: (hit.tool_type.value, hit.metadata["type"]) for name, hit in hits.items()}
    assert kinds == {
        "player": ("skill", "skill"),
        "remote": ("mcp", "mcp"),
        "calc": ("builtin", "builtin"),
        "old": ("skill", "skill"),
    }
    assert await running.found("music", tool_types=["mcp"]) == ["remote"]
    assert sorted(await running.found("music", tool_types=["mcp", "builtin"])) == ["calc", "remote"]


async def test_a_hit_has_the_functions_of_its_tool_as_it_is_now_if_they_are_asked_for(running: Running) -> None:
    names = ("zone", "artist", "when")  # the store sorts the keys of objects

    async def put(*properties: str) -> None:
        schema: JsonValue = {"type": "object", "properties": {name: {"type": "string"} for name in properties}}
        tool: JsonValue = {"id": "mcp:lab/radio", "name": "radio", "description": "Plays music.", "parameters": schema}
        await running.bus.caller.call(PUT_TOOLS, PutTools(tools=(tool,), source="mcp:lab"))

    async def find() -> dict[str, tuple[ToolFunction, ...] | None]:
        found = await running.search("music", threshold=0, limit=10, functions=True)
        return {hit.id: hit.functions for hit in found.results}

    mark = SetToolApproval(id="mcp:lab/radio", required=True)
    for properties, marked in ((names, False), (names[:2], False), (names[:2], True)):
        await put(*properties)
        if marked:
            await running.bus.caller.call(SET_TOOL_APPROVAL, mark)
        described = await running.bus.caller.call(DESCRIBE_TOOLS, DescribeTools(ids=("mcp:lab/radio",)))
        found = await find()
        assert found == {"mcp:lab/radio": described.functions}
        (function,) = found["mcp:lab/radio"] or ()
        assert function.requires_approval is marked
        assert list(_object(function.parameters["properties"])) == list(properties)
    await _put_tools(running, await _live(running), ("old", "mcp"))  # as a version wrote it that knew no functions
    assert (await find())["mcp:old"] is None
    assert [hit.functions for hit in (await running.search("music", threshold=0)).results] == [None, None]


async def test_a_tool_of_an_unknown_type_is_left_out_and_the_next_takes_its_place(running: Running) -> None:
    """tool-type.md § 3.5 异常处理: 非法值"""
    await running.install("player", "Plays a song.")
    await _put_tools(running, await _live(running), ("odd", "plugin"))
    assert await running.found("music", limit=1) == ["player"]
    assert "odd" not in await running.found("music", limit=10)


async def test_a_switch_of_the_alias_is_seen_without_a_restart(running: Running) -> None:
    await running.install("player", "Plays a song.")
    old = await _live(running)
    assert await running.found("music") == ["player"]
    new = old.removesuffix("v1") + "v2"
    await running.store.ensure_collection(new, CollectionSpec(dim=TopicModel.spec.dim))
    await _put_tools(running, new, ("successor", "skill"))
    await running.store.switch_aliases({TOOLS.alias: new})
    await eventually(lambda: running.found("music"), lambda names: "successor" in names)
    await running.store.switch_aliases({TOOLS.alias: old})
    await eventually(lambda: running.found("music"), lambda names: names == ["player"])


async def test_limit_threshold_and_order_hold_over_the_bus(running: Running) -> None:
    """skill-vector-retrieval.md § 检索结果限制, § 相似度阈值过滤"""
    for number in range(8):
        await running.install(f"player-{number}", f"Plays a song{' and reads a file' * (number % 2)}.")
    await running.install("forecast", "Tells whether rain comes.")
    five = (await running.search("music", limit=5)).results
    assert len(five) == 5
    assert [hit.score for hit in five] == sorted((hit.score for hit in five), reverse=True)
    everything = (await running.search("music", limit=100)).results
    assert len(everything) == 9
    good = (await running.search("music", limit=100, threshold=0.6)).results
    assert good == tuple(hit for hit in everything if hit.score >= 0.6)
    assert 0 < len(good) < 9


async def test_the_retriever_is_ready_and_names_its_engine(running: Running) -> None:
    health = await running.bus.caller.call(HEALTH, Empty())
    assert health.ready
    assert "Qdrant" in health.checks[0].detail


async def test_commands_of_the_library_are_found_as_soon_as_they_are_put(running: Running) -> None:
    library: tuple[JsonValue, ...] = tuple(
        {"id": f"light.{name}", "capability": {"id": "light"}, "command": {"id": name}, "description": text}
        for name, text in {"on": "打开灯", "off": "Turn the light off"}.items()
    )
    put = await running.bus.caller.call(PUT_COMMANDS, PutCommands(project="home", commands=library))
    assert put.indexed

    found = await running.bus.caller.call(SEARCH_COMMANDS, SearchCommands(project="home", query="關燈"))
    best, other = found.results
    assert (best.id, best.capability, best.command) == ("light.off", "light", "off")
    assert best.description == {"en": "Turn the light off"}
    assert best.score > 0.5 > other.score
    nothing = await running.bus.caller.call(SEARCH_COMMANDS, SearchCommands(query="關燈"))
    assert nothing.results == ()
