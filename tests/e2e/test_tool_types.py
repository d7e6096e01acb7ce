"""Skills, MCP tools and builtin tools side by side: each is found with its kind, and called as its kind says."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import JsonValue
from tests.mcp_file import add_script, remove_server

from skillbus.common.testing import eventually
from skillbus.contracts.agent.mcp_servers import (
    McpServerState,
)
from skillbus.contracts.agent.tool_calls import CALL_TOOL, LIST_BUILTINS, CallTool, ToolCalled
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import (
    BUILTIN_SOURCE,
    LIST_TOOLS,
    PUT_TOOLS,
    REMOVE_TOOLS,
    SET_TOOL_STATE,
    ListTools,
    PutTools,
    RemoveTools,
    SetToolState,
    ToolType,
)
from skillbus.contracts.message import Empty

from .conftest import Json, System, problem, skill_package

pytestmark = pytest.mark.asyncio(loop_scope="module")

SERVER = Path(__file__).with_name("weather_server.py")
BUILTINS = (
    *("calculate", "datetime", "list_files", "platform", "read_file", "read_result", "read_skill"),
    *("resolve_command", "run_code", "search_tools", "write_file"),
)
REQUIRED = {"id", "name", "description", "score", "tool_type"}
"""tool-type.md § 3.3.2, the fields that every result has."""
SKILLS = {
    "git-commit": "生成Git提交信息",
    "excel-analysis": "读取Excel分析数据",
    "image-resize": "压缩图片、调整图片大小",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def every_kind(system: System) -> AsyncGenerator[System]:
    """Three skills, a real MCP server with two tools, and the builtin tools that come with skillbus."""
    for name, description in SKILLS.items():
        assert (await system.install(skill_package(name, description))).status_code == 201
    caller = system.standalone.bus.caller
    registered = await add_script(caller, system.data / "mcp.json", "weather", [SERVER])
    assert (registered.state, registered.tools) == (McpServerState.CONNECTED, 2), registered.problem
    await eventually(lambda: _builtins(system), lambda ids: len(ids) == len(BUILTINS))
    yield system
    await remove_server(caller, system.data / "mcp.json", "weather")


async def _builtins(system: System) -> list[str]:
    listed = await system.standalone.bus.caller.call(LIST_TOOLS, ListTools(source=BUILTIN_SOURCE))
    return [tool.id for tool in listed.tools]


async def _call(system: System, tool_id: str, **arguments: JsonValue) -> ToolCalled:
    return await system.standalone.bus.caller.call(CALL_TOOL, CallTool(id=tool_id, arguments=arguments))


def _kinds(hit: Json) -> tuple[JsonValue, JsonValue]:
    metadata = hit["metadata"]
    assert isinstance(metadata, dict)
    return hit["tool_type"], metadata["type"]


@pytest.mark.spec("tool-type.md § 3.4-3 顶层字段, metadata.type 保留")
@pytest.mark.spec("tool-type.md § 6.1 skill 类型工具返回正确")
@pytest.mark.spec("tool-type.md § 6.1 mcp 类型工具返回正确")
@pytest.mark.spec("tool-type.md § 6.1 builtin 类型工具返回正确")
@pytest.mark.spec("tool-type.md § 6.2 toolType 值正确 (mcp)")
@pytest.mark.spec("tool-type.md § 7.2 索引写入 toolType (LanceDBConnection, SkillIndexer, MCPToolSupport)")
@pytest.mark.parametrize(
    ("query", "tool_id", "kind"),
    [
        ("帮我提交代码", "skill:git-commit", "skill"),
        ("查询城市的天气预报", "mcp:weather/forecast", "mcp"),
        ("weather forecast of Paris", "mcp:weather/forecast", "mcp"),
        ("数学计算", "builtin:calculate", "builtin"),
        ("what time is it in New York", "builtin:datetime", "builtin"),
    ],
)
async def test_a_tool_is_found_with_its_kind_at_the_top_and_in_the_metadata(
    every_kind: System, query: str, tool_id: str, kind: str
) -> None:
    """tool-type.md § 6.1 功能测试: skill, mcp, builtin 类型工具返回正确; § 6.2: mcp 工具; § 3.4 返回格式规则"""
    hits = await every_kind.hits(query, limit=3)
    found = {hit["id"]: _kinds(hit) for hit in hits}
    assert tool_id in found, hits
    assert found[tool_id] == (kind, kind)


@pytest.mark.spec("tool-type.md § 3.2.1 ToolRetrievalResult.toolType")
@pytest.mark.spec("tool-type.md § 3.2.2 formatSearchResults")
@pytest.mark.spec("tool-type.md § 3.3.2 返回数据结构")
@pytest.mark.spec("tool-type.md § 6.2 返回结果包含 toolType")
@pytest.mark.spec("tool-type.md § 6.2 返回结果结构完整")
async def test_every_result_has_every_field_that_is_required(every_kind: System) -> None:
    """tool-type.md § 6.2 接口测试: 返回结果包含 toolType, 返回结果结构完整"""
    hits = await every_kind.hits("随便什么工具", limit=100, threshold=0)
    assert len(hits) == len(SKILLS) + 2 + len(BUILTINS)
    for hit in hits:
        assert hit.keys() >= REQUIRED
        kind, repeated = _kinds(hit)
        assert str(hit["id"]).startswith(f"{kind}:")
        assert kind == repeated


@pytest.mark.spec("tool-type.md § 3.2.1 ToolsTable.toolType 三类")
@pytest.mark.spec("tool-type.md § 3.2.2 formatTool builtin 分支")
@pytest.mark.spec("tool-type.md § 6.3 多个结果")
@pytest.mark.spec("tool-type.md § 8 实现清单 (5 任务)")
async def test_all_three_kinds_come_in_one_answer(every_kind: System) -> None:
    """tool-type.md § 6.3 边界测试: 多个结果"""
    hits = await every_kind.hits("读取文件、查询天气、提交代码", limit=100, threshold=0)
    assert {hit["tool_type"] for hit in hits} == {ToolType.SKILL, ToolType.MCP, ToolType.BUILTIN}


@pytest.mark.spec("tool-type.md § 6.3 单个结果")
async def test_a_limit_of_one_gives_one_element(every_kind: System) -> None:
    """tool-type.md § 6.3 边界测试: 单个结果"""
    assert len(await every_kind.hits("查询城市的天气预报", limit=1)) == 1


@pytest.mark.spec("tool-type.md § 6.3 空结果")
async def test_a_query_that_nothing_matches_gives_an_empty_list(every_kind: System) -> None:
    """tool-type.md § 6.3 边界测试: 空结果"""
    assert await every_kind.hits("量子纠缠的哲学意义", threshold=0.99) == []


@pytest.mark.spec("tool-type.md § 3.3.1 ToolType 枚举")
@pytest.mark.parametrize(
    ("kinds", "count"),
    [(["skill"], len(SKILLS)), (["mcp"], 2), (["builtin"], len(BUILTINS)), (["mcp", "skill"], len(SKILLS) + 2)],
)
async def test_only_the_kinds_that_are_asked_for_are_found(
    every_kind: System, kinds: list[JsonValue], count: int
) -> None:
    """tool-type.md § 3.3.1 工具类型枚举, as a filter"""
    hits = await every_kind.hits("文件", limit=100, threshold=0, tool_types=kinds)
    assert {hit["tool_type"] for hit in hits} == set(kinds)
    assert len(hits) == count


async def test_no_kind_takes_more_places_than_its_quota(every_kind: System) -> None:
    """tool-type.md § 3.3.1 工具类型枚举, as quotas"""
    hits = await every_kind.hits("文件", limit=100, threshold=0, quotas={"builtin": 2, "mcp": 0})
    kinds = [hit["tool_type"] for hit in hits]
    assert {kind: kinds.count(kind) for kind in ("skill", "builtin", "mcp")} == {
        "skill": len(SKILLS),
        "builtin": 2,
        "mcp": 0,
    }


@pytest.mark.spec("tool-type.md § 4 输入验证 白名单")
@pytest.mark.spec("tool-type.md § 4 类型安全")
@pytest.mark.parametrize("kind", ["plugin", "", "SKILL", "Skill", 3, None])
async def test_a_kind_that_is_not_on_the_list_is_no_filter(every_kind: System, kind: JsonValue) -> None:
    """tool-type.md § 4 安全设计: 白名单校验"""
    assert problem(await every_kind.search("文件", tool_types=[kind])) == (400, "invalid_request")


@pytest.mark.spec("tool-system.md § 1 工具类型分层 (内置 / 外置)")
@pytest.mark.spec("tool-type.md § 3.4-1 类型规则 (mcp / builtin / skill 按来源)")
async def test_the_kind_tells_how_a_tool_is_called(every_kind: System) -> None:
    """tool-type.md § 7.1 被依赖: 根据 toolType 选择正确的工具调用策略"""
    assert (await _call(every_kind, "mcp:weather/forecast", city="巴黎")).text == "巴黎: rain"
    assert (await _call(every_kind, "builtin:calculate", expression="(1 + 2) * 3")).text == "9"
    called = await _call(every_kind, "skill:git-commit")
    assert (called.text, called.is_error, len(called.run_id)) == ("done\n", False, 32)


async def test_everything_that_is_found_as_callable_can_be_called(every_kind: System) -> None:
    """A call may be refused for its arguments, or fail; but there is a tool that says so."""
    hits = await every_kind.hits("anything", limit=100, threshold=0)
    assert {hit["tool_type"] for hit in hits if hit["callable"]} == {"skill", "mcp", "builtin"}
    for hit in hits:
        answer = await every_kind.http.post(f"/api/tools/{hit['id']}/call", json={})
        refused = None if answer.is_success else problem(answer)
        assert refused in (None, (422, "invalid_arguments")), hit["id"]
    audit = (await every_kind.http.get("/api/audit")).json()
    assert audit["agrees"], audit


async def test_a_tool_that_is_only_described_is_found_as_external_and_a_call_names_its_provider(
    every_kind: System,
) -> None:
    caller = every_kind.standalone.bus.caller
    tool: JsonValue = {
        "id": "acme.invoice",
        "name": "create_invoice",
        "description": "Creates an invoice 开具发票",
        "tool_type": "skill",
        "provider": "Acme",
    }
    assert (await caller.call(PUT_TOOLS, PutTools(tools=(tool,)))).indexed
    found = await every_kind.hits("开具发票", limit=100, threshold=0, tool_types=["external"])
    assert [(hit["id"], _kinds(hit), hit["callable"]) for hit in found] == [
        ("acme.invoice", ("external", "external"), False)
    ]
    with pytest.raises(RequestError) as refused:
        await _call(every_kind, "acme.invoice")
    assert (refused.value.code, refused.value.details) == (ErrorCode.NOT_CALLABLE, {"provided_by": "Acme"})
    await caller.call(REMOVE_TOOLS, RemoveTools(ids=("acme.invoice",)))


@pytest.mark.spec("tool-system.md § BuiltInToolsRegistry: 预加载, 常驻, 直接方法调用")
@pytest.mark.spec("tool-system.md § BuiltInExecutor")
async def test_the_builtin_tools_of_the_specification_are_listed_catalogued_and_called(every_kind: System) -> None:
    """tool-system.md § BuiltInToolsRegistry: FileRead, FileWrite, PlatformDetector, calculate, datetime"""
    listed = await every_kind.standalone.bus.caller.call(LIST_BUILTINS, Empty())
    assert tuple(tool.name for tool in listed.tools) == BUILTINS
    assert await _builtins(every_kind) == [f"builtin:{name}" for name in BUILTINS]
    await _call(every_kind, "builtin:write_file", path="notes/a.md", content="汉字")
    assert (await _call(every_kind, "builtin:read_file", path="notes/a.md")).text == "汉字"
    assert (await _call(every_kind, "builtin:list_files", path="notes")).text == "a.md (6 bytes)"
    assert "python" in (await _call(every_kind, "builtin:platform")).text
    assert "UTC" in (await _call(every_kind, "builtin:datetime")).text


PROGRAM = """
found = await search_tools("weather forecast of a city", limit=3)
[tool] = [hit["id"] for hit in found if hit["id"] == "mcp:weather/forecast"]
print((await tool_schema(tool))["stub"].splitlines()[0])
[(await call_tool(tool, city=city))["content"][0]["text"] for city in ("Bern", "Turin")]
"""


async def test_a_program_over_http_finds_and_calls_tools(every_kind: System) -> None:
    path, body = "/api/tools/builtin:run_code/call", {"arguments": {"code": PROGRAM}}
    answer = (await every_kind.http.post(path, json=body)).json()
    assert answer["structured"] == ["Bern: rain", "Turin: rain"], answer
    signature = 'async def call_tool(id: Literal["mcp:weather/forecast"], /, *, city: str) -> dict[str, Any]:\n'
    assert answer["content"][0]["text"] == signature
    followed = await every_kind.http.post(f"{path}?stream=true", json=body)
    events = [line.removeprefix("event: ") for line in followed.text.splitlines() if line.startswith("event: ")]
    assert events == ["begun", "output", "reply"]


@pytest.mark.spec("tool-type.md § 2.1 流程 LLM → vector-search → SearchEngine → toolType")
async def test_search_tools_finds_what_a_search_finds_with_its_kind(every_kind: System) -> None:
    """tool-type.md § 2.1: LLM → vector-search → SearchEngine → ToolRetrievalResult[]（含 toolType）"""
    searched = await every_kind.hits("查询城市的天气预报", limit=3)
    answer = await _call(every_kind, "builtin:search_tools", query="查询城市的天气预报", limit=3)
    assert isinstance(answer.structured, dict)
    results = answer.structured["results"]
    assert isinstance(results, list)
    told = [(one["id"], one["tool_type"]) for one in results if isinstance(one, dict)]
    assert told == [(hit["id"], hit["tool_type"]) for hit in searched]
    assert ("mcp:weather/forecast", "mcp") in told


async def test_arguments_that_do_not_fit_are_refused_with_their_place(every_kind: System) -> None:
    with pytest.raises(RequestError) as refused:
        await _call(every_kind, "builtin:calculate", formula="1 + 1")
    assert refused.value.code is ErrorCode.INVALID_ARGUMENTS
    with pytest.raises(RequestError) as led_out:
        await _call(every_kind, "builtin:read_file", path="../../etc/passwd")
    assert led_out.value.code is ErrorCode.INVALID_ARGUMENTS
    assert "path" in led_out.value.message


async def test_what_a_builtin_cannot_do_is_its_answer(every_kind: System) -> None:
    answer = await _call(every_kind, "builtin:calculate", expression="1/0")
    assert (answer.is_error, answer.text) == (True, "division by zero")


async def test_a_disabled_builtin_is_neither_found_nor_called(every_kind: System) -> None:
    caller = every_kind.standalone.bus.caller
    await caller.call(SET_TOOL_STATE, SetToolState(id="builtin:platform", enabled=False))
    hits = await every_kind.hits("operating system and architecture", limit=100, threshold=0)
    assert "builtin:platform" not in {hit["id"] for hit in hits}
    with pytest.raises(RequestError) as refused:
        await _call(every_kind, "builtin:platform")
    assert refused.value.code is ErrorCode.FORBIDDEN
    await caller.call(SET_TOOL_STATE, SetToolState(id="builtin:platform", enabled=True))
    assert (await _call(every_kind, "builtin:platform")).text
