"""The tools `search_tools` and `platform`, and what all builtin tools have in common."""

import getpass
import re
import socket
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from pydantic import JsonValue

from skillbus.agent.adapters.disk_files import DiskFiles, FileQuota
from skillbus.agent.domain.builtins.calculate import CALCULATE
from skillbus.agent.domain.builtins.date_time import make_datetime_tool, parse_moment, parse_zone
from skillbus.agent.domain.builtins.files import make_list_files_tool, make_read_file_tool, make_write_file_tool
from skillbus.agent.domain.builtins.platform import PLATFORM
from skillbus.agent.domain.builtins.tool import BuiltinTools
from skillbus.agent.domain.builtins.tool_finder import make_search_tool
from skillbus.agent.domain.errors import ArgumentsInvalidError, ToolUnknownError
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import BUILTIN_SOURCE, ToolDescription, ToolType
from skillbus.contracts.retriever.tool_search import SearchTools, ToolHit, ToolsFound

HITS = (
    ToolHit(
        id="skill:excel-analysis",
        name="excel-analysis",
        description="读取Excel分析数据",
        score=0.83456,
        cosine=0.7,
        tool_type=ToolType.SKILL,
        tags=("excel",),
        metadata={"version": "1.0.0"},
    ),
    ToolHit(
        id="mcp:sheets/open", name="open", description="Open a sheet", score=0.5, cosine=0.4, tool_type=ToolType.MCP
    ),
)


class Finder:
    def __init__(self, *hits: ToolHit, fails: RequestError | None = None) -> None:
        self.asked: list[SearchTools] = []
        self._hits = hits
        self._fails = fails

    async def find_tools(self, request: SearchTools) -> ToolsFound:
        self.asked.append(request)
        if self._fails:
            raise self._fails
        return ToolsFound(results=self._hits, took_ms=1.0)


def all_tools(finder: Finder | None = None) -> BuiltinTools:
    files = DiskFiles(Path("nowhere"), FileQuota())
    return BuiltinTools(
        [
            CALCULATE,
            make_datetime_tool(lambda: parse_moment("2026-11-22", parse_zone("UTC"))),
            make_search_tool((finder or Finder()).find_tools),
            PLATFORM,
            make_read_file_tool(files),
            make_write_file_tool(files),
            make_list_files_tool(files),
        ]
    )


@pytest.mark.spec("tool-type.md § 7.1 vector-search 依赖 toolType")
async def test_a_search_tells_each_hit_with_its_kind_at_top_level_and_in_the_metadata() -> None:
    """tool-type.md § 7.1: `vector-search` depends on the `toolType` of each result; § 3.4"""
    answer = await all_tools(Finder(*HITS)).get_tool("search_tools").call("default", {"query": "分析Excel文件"})
    assert isinstance(answer.structured, dict)
    assert answer.structured["results"] == [
        {
            "id": "skill:excel-analysis",
            "name": "excel-analysis",
            "description": "读取Excel分析数据",
            "score": 0.8346,
            "tool_type": "skill",
            "tags": ["excel"],
            "metadata": {"version": "1.0.0", "type": "skill"},
        },
        {
            "id": "mcp:sheets/open",
            "name": "open",
            "description": "Open a sheet",
            "score": 0.5,
            "tool_type": "mcp",
            "tags": [],
            "metadata": {"type": "mcp"},
        },
    ]
    first, _second = answer.text.splitlines()
    assert first == "1. skill:excel-analysis (skill, score 0.83): excel-analysis. 读取Excel分析数据"


@pytest.mark.spec("tool-system.md § 内置工具 VectorSearch")
async def test_a_search_asks_for_the_project_the_kinds_and_the_number_that_were_wanted() -> None:
    finder = Finder()
    await (
        all_tools(finder)
        .get_tool("search_tools")
        .call("home", {"query": "x", "limit": 2, "tool_types": ["mcp", "skill"]})
    )
    assert finder.asked == [
        SearchTools(query="x", limit=2, tool_types=(ToolType.MCP, ToolType.SKILL), project="home", threshold=None)
    ]


async def test_a_search_that_finds_nothing_says_so_and_is_no_error() -> None:
    answer = await all_tools().get_tool("search_tools").call("default", {"query": "x"})
    assert (answer.is_error, answer.structured) == (False, {"results": [], "degraded": None})
    assert "No tool fits" in answer.text


async def test_a_search_that_cannot_be_made_is_the_error_of_the_one_who_could_not() -> None:
    gone = RequestError(ErrorCode.VECTOR_STORE_UNAVAILABLE, "Qdrant connection failed: refused")
    with pytest.raises(RequestError) as raised:
        await all_tools(Finder(fails=gone)).get_tool("search_tools").call("default", {"query": "x"})
    assert raised.value is gone


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({}, "$.query"),
        ({"query": "   "}, "$.query"),
        ({"query": "a\0b"}, "$.query"),
        ({"query": "x" * 2_001}, "$.query"),
        ({"query": "x", "limit": 21}, "$.limit"),
        ({"query": "x", "limit": "5"}, "$.limit"),
        ({"query": "x", "tool_types": ["script"]}, "$.tool_types[0]"),
    ],
)
async def test_a_search_that_does_not_fit_is_refused_with_its_place(arguments: dict[str, JsonValue], path: str) -> None:
    with pytest.raises(ArgumentsInvalidError) as refused:
        await all_tools().get_tool("search_tools").call("default", arguments)
    assert refused.value.path == path


@pytest.mark.spec("tool-system.md § 内置工具 PlatformDetector")
async def test_the_platform_is_told_and_nothing_that_names_the_machine() -> None:
    answer = await all_tools().get_tool("platform").call("default", {})
    assert isinstance(answer.structured, dict)
    assert {"system", "machine", "python"} <= answer.structured.keys()
    told = set(re.split(r"[\s:]+", answer.text))
    assert not told & {socket.gethostname(), getpass.getuser(), str(Path.home()), str(Path.cwd())}


async def test_a_tool_that_there_is_not_is_unknown() -> None:
    with pytest.raises(ToolUnknownError, match="calculate"):
        await all_tools().get_tool("eval").call("default", {})


def test_the_tools_of_the_specification_are_there() -> None:
    """tool-system.md § BuiltInToolsRegistry"""
    names = ("calculate", "datetime", "list_files", "platform", "read_file", "search_tools", "write_file")
    assert tuple(tool.id for tool in all_tools().describe()) == tuple(f"builtin:{name}" for name in names)


@pytest.mark.parametrize("tool", all_tools().describe(), ids=lambda tool: tool.name)
def test_a_description_speaks_both_languages_and_carries_a_schema(tool: ToolDescription) -> None:
    assert (tool.tool_type, tool.source) == (ToolType.BUILTIN, BUILTIN_SOURCE)
    chinese = [re.search(r"[\u4e00-\u9fff]", text) is not None for text in tool.examples]
    assert True in chinese
    assert False in chinese
    assert re.fullmatch(r"[A-Z][ -~]+\. [^.]*[\u4e00-\u9fff].*。", tool.description)
    assert tool.parameters is not None
    Draft202012Validator.check_schema(tool.parameters)
    properties = tool.parameters["properties"]
    assert isinstance(properties, dict)
    assert all(isinstance(one, dict) and one.get("description") for one in properties.values())
