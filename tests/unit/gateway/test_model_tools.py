"""Found tools as schemas for models, and their names there."""

import re

from hypothesis import given
from hypothesis import strategies as st

from skillbus.common.tools.function_names import NAME_CHARACTERS, decode_name, encode_name
from skillbus.contracts.http import ToolReference
from skillbus.contracts.indexer.tool_functions import DESCRIBE_TOOLS, DescribeTools, ToolFunction, ToolsDescribed
from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolHit, ToolsFound

from .fakes import World

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
_WORDS = st.text("abz019_-", max_size=12) | st.text(max_size=70)
_IDS = st.one_of(
    st.builds("builtin:{}".format, _WORDS),
    st.builds("skill:{}".format, _WORDS),
    st.builds("mcp:{}/{}".format, _WORDS, _WORDS),
    st.builds("x__{}".format, _WORDS),
    st.text(min_size=1, max_size=300),
)
_REFERENCES = st.builds(ToolReference, id=_IDS, action=st.none() | _WORDS.filter(bool))


@given(st.lists(_REFERENCES, unique_by=lambda it: (it.id, it.action or "")))
def test_names_are_short_plain_and_unique_and_lead_back_to_their_tools(tools: list[ToolReference]) -> None:
    names = [encode_name(tool) for tool in tools]
    assert len(set(names)) == len(tools)
    for name, tool in zip(names, tools, strict=True):
        assert re.fullmatch(rf"[A-Za-z0-9_-]{{1,{NAME_CHARACTERS}}}", name)
        assert decode_name(name) in {tool, None}


def test_usual_ids_have_readable_names_that_are_decoded() -> None:
    usual = {
        "builtin__read_file": ToolReference(id="builtin:read_file"),
        "skill__git-commit": ToolReference(id="skill:git-commit"),
        "skill__git-commit__status": ToolReference(id="skill:git-commit", action="status"),
        "mcp__files__read_file": ToolReference(id="mcp:files/read_file"),
    }
    assert {encode_name(tool): tool for tool in usual.values()} == usual
    assert {name: decode_name(name) for name in usual} == usual
    long = encode_name(ToolReference(id="mcp:files/" + "read_" * 20))
    assert (long[:20], decode_name(long)) == ("x__files__read_read_", None)


def hit(tool_id: str, kind: ToolType, **more: object) -> ToolHit:
    usual = {"name": tool_id.partition(":")[2], "description": "d", "score": 0.5, "cosine": None}
    return ToolHit.model_validate({"id": tool_id, "tool_type": kind, **usual, **more})


async def test_a_search_returns_schemas_of_what_can_be_called_in_the_format_of_the_model() -> None:
    world = World()
    hits = (
        hit("mcp:files/read_file", ToolType.MCP),
        hit("skill:calculate", ToolType.SKILL),
        hit("acme.invoice", ToolType.EXTERNAL, callable=False),
    )
    both, second = (hits[0].id, hits[1].id), (hits[1].id,)
    reading = ToolFunction(id=hits[0].id, description="读" * 2000, parameters=SCHEMA, requires_approval=True)
    calculating = ToolFunction(id=hits[1].id, description="数学计算")
    solving = ToolFunction(id=hits[1].id, action="solve", description="数学计算\nSolves equations.")
    described = {
        both: ToolsDescribed(functions=(reading,), left_out=second),
        second: ToolsDescribed(functions=(calculating, solving)),
    }

    def describe(request: Message) -> Message:
        assert isinstance(request, DescribeTools)
        assert request.project == "p"
        return described[request.ids]

    world.caller.on(SEARCH_TOOLS, lambda _: ToolsFound(results=hits, took_ms=1))
    world.caller.on(DESCRIBE_TOOLS, describe)
    async with world.client() as client:
        replies = {
            form: (await client.post("/api/tools/search", json={"query": "q", "project": "p", "format": form})).json()
            for form in ("openai", "anthropic", "mcp", None)
        }
        refused = await client.post("/api/tools/search", json={"query": "q", "format": "json"})
    assert world.caller.asked[0][1] == SearchTools(query="q", project="p", functions=True)
    assert all("functions" not in hit or hit["functions"] is None for hit in replies["mcp"]["results"])
    names = ["mcp__files__read_file", "skill__calculate", "skill__calculate__solve"]
    openai = [one["function"] for one in replies["openai"]["tools"]]
    assert [one["name"] for one in openai] == names == [one["name"] for one in replies["mcp"]["tools"]]
    assert openai[0] == {"name": names[0], "description": "读" * 1024, "parameters": SCHEMA}
    assert replies["anthropic"]["tools"][2] == {
        "name": names[2],
        "description": "数学计算\nSolves equations.",
        "input_schema": {"type": "object", "properties": {}},
    }
    assert replies["mcp"]["tools"][0]["inputSchema"] == SCHEMA
    assert [one.get("annotations") for one in replies["mcp"]["tools"]] == [{"destructiveHint": True}, None, None]
    assert replies["mcp"]["names"][names[2]] == {"id": "skill:calculate", "action": "solve"}
    assert (replies[None]["tools"], replies[None]["names"], refused.status_code) == ([], {}, 400)


async def test_functions_that_the_index_holds_are_not_asked_for_again_and_those_of_older_points_are() -> None:
    world = World()
    reading = ToolFunction(id="mcp:files/read_file", description="Reads.", parameters=SCHEMA)
    solving = ToolFunction(id="skill:calculate", action="solve", description="Solves.")
    hits = (
        hit(reading.id, ToolType.MCP, functions=(reading,)),
        hit(solving.id, ToolType.SKILL),
        hit("acme.invoice", ToolType.EXTERNAL, callable=False),
    )

    def describe(request: Message) -> Message:
        assert request == DescribeTools(project="p", ids=(solving.id,))
        return ToolsDescribed(functions=(solving,))

    world.caller.on(SEARCH_TOOLS, lambda _: ToolsFound(results=hits, took_ms=1))
    world.caller.on(DESCRIBE_TOOLS, describe)
    body = {"query": "q", "project": "p", "functions": True}
    async with world.client() as client:
        reply = (await client.post("/api/tools/search", json=body)).json()
        named = (await client.post("/api/tools/search", json={**body, "functions": False, "format": "mcp"})).json()
        plain = (await client.post("/api/tools/search", json={**body, "functions": False})).json()
    found = [found["functions"] for found in reply["results"]]
    assert [[ToolFunction.model_validate(one) for one in each or ()] for each in found] == [[reading], [solving], []]
    assert [tool["name"] for tool in named["tools"]] == ["mcp__files__read_file", "skill__calculate__solve"]
    assert (reply["tools"], plain["tools"]) == ([], [])
    asked = [name for name, _ in world.caller.asked]
    assert asked == ["search_tools", "describe_tools", "search_tools", "describe_tools", "search_tools"]
