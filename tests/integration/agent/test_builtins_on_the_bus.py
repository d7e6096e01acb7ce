"""Builtin tools that ask others: the retriever to search, the indexer to be found."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skillbus.agent.adapters.bus_catalogue import BusCatalogue
from skillbus.agent.domain.builtins.publisher import BuiltinPublisher
from skillbus.agent.wiring import make_builtin_tools
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import Responder, route
from skillbus.common.testing import WAIT_S, eventually
from skillbus.contracts.agent.tool_calls import CALL_TOOL, CallTool
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import (
    BUILTIN_SOURCE,
    LIST_TOOLS,
    PUT_TOOLS,
    REMOVE_TOOLS,
    ListTools,
    PutTools,
    RemoveTools,
    ToolDescription,
    ToolPut,
    ToolPutOutcome,
    ToolsListed,
    ToolsPut,
    ToolsRemoved,
    ToolState,
    ToolSummary,
    ToolType,
)
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolHit, ToolsFound

from .catalogue import AgentCatalogue
from .conftest import Agent

NAMES = (
    "calculate",
    "datetime",
    "list_files",
    "platform",
    "read_file",
    "resolve_command",
    "search_tools",
    "write_file",
)
IDS = {f"builtin:{name}" for name in NAMES}
NOW = datetime(2026, 11, 22, tzinfo=UTC)


class Indexer:
    """A catalogue in memory; `complete` is set when all builtin tools are there."""

    def __init__(self) -> None:
        self.tools: dict[tuple[str, str], ToolDescription] = {}
        self.reviewed: set[bool] = set()
        self.complete = asyncio.Event()

    async def put(self, request: PutTools) -> ToolsPut:
        self.reviewed.add(request.review_changes)
        described = [ToolDescription.model_validate(tool) for tool in request.tools]
        self.tools.update({(request.project, tool.id): tool for tool in described})
        return ToolsPut(
            results=tuple(ToolPut(id=tool.id, outcome=ToolPutOutcome.CREATED) for tool in described), indexed=True
        )

    async def listed(self, request: ListTools) -> ToolsListed:
        found = [tool for (project, _), tool in self.tools.items() if (project, tool.source) == self._of(request)]
        if {tool.id for tool in found} == IDS:
            self.complete.set()
        return ToolsListed(tools=tuple(map(_summary, found)), total=len(found))

    async def removed(self, request: RemoveTools) -> ToolsRemoved:
        gone = [id_ for id_ in request.ids if self.tools.pop((request.project, id_), None)]
        return ToolsRemoved(ids=tuple(gone))

    @staticmethod
    def _of(request: ListTools) -> tuple[str, str | None]:
        return request.project, request.source


def _summary(tool: ToolDescription) -> ToolSummary:
    return ToolSummary(
        id=tool.id,
        name=tool.name,
        description=tool.description[:200],
        tool_type=tool.tool_type,
        source=tool.source,
        state=ToolState.ACTIVE,
        findings=0,
        updated_at=NOW,
    )


@asynccontextmanager
async def indexer_on(bus: Bus) -> AsyncGenerator[Indexer]:
    indexer = Indexer()
    responder = Responder(bus.client, "indexer", "0.0.0", bus.metrics)
    await responder.start(
        route(PUT_TOOLS, indexer.put), route(LIST_TOOLS, indexer.listed), route(REMOVE_TOOLS, indexer.removed)
    )
    try:
        yield indexer
    finally:
        await responder.drain()


@asynccontextmanager
async def running(cataloguer: BuiltinPublisher) -> AsyncGenerator[None]:
    task = asyncio.create_task(cataloguer.run())
    try:
        yield
    finally:
        task.cancel()


async def test_an_indexer_that_starts_later_gets_all_builtin_tools_without_review(bus: Bus, tmp_path: Path) -> None:
    described = make_builtin_tools(bus.caller, tmp_path).describe()
    cataloguer = BuiltinPublisher(BusCatalogue(bus.caller), described, first_retry_s=0.01)
    cataloguer.add_project("default")
    async with running(cataloguer):
        with pytest.raises(RequestError):
            await cataloguer.sync_project("default")
        async with indexer_on(bus) as indexer, asyncio.timeout(WAIT_S):
            await indexer.complete.wait()
    assert indexer.tools == {("default", tool.id): tool for tool in described}
    assert indexer.reviewed == {False}


async def test_builtin_tools_of_another_version_go_and_those_of_others_stay(bus: Bus, tmp_path: Path) -> None:
    async with indexer_on(bus) as indexer:
        for id_, source in (("builtin:then", BUILTIN_SOURCE), ("weather", "import")):
            tool = ToolDescription(id=id_, name=id_, tool_type=ToolType.BUILTIN, source=source)
            indexer.tools[("default", id_)] = tool
        described = make_builtin_tools(bus.caller, tmp_path).describe()
        await BuiltinPublisher(BusCatalogue(bus.caller), described).sync_project("default")
        assert {id_ for _, id_ in indexer.tools} == IDS | {"weather"}


async def test_a_tool_that_is_switched_off_is_neither_described_nor_called(bus: Bus, tmp_path: Path) -> None:
    tools = make_builtin_tools(bus.caller, tmp_path, without=["write_file"])
    assert {tool.name for tool in tools.describe()} == set(NAMES) - {"write_file"}


async def test_the_projects_that_are_named_have_them_and_one_that_gets_a_server_too(
    agent: Agent, catalogue: AgentCatalogue
) -> None:
    async def projects() -> set[str]:
        return {project for project, id_ in catalogue.tools if id_ == "builtin:calculate"}

    await eventually(projects, lambda found: found == {"default"})
    await agent.start("friendly", project="home", timeout_s=10)
    await eventually(projects, lambda found: found == {"default", "home"})


async def test_a_builtin_tool_can_be_called_in_any_project(agent: Agent) -> None:
    request = CallTool(project="elsewhere", id="builtin:calculate", arguments={"expression": "1 + 1"})
    assert (await agent.bus.caller.call(CALL_TOOL, request)).text == "2"


async def test_search_tools_asks_the_retriever(bus: Bus, tmp_path: Path) -> None:
    """tool-system.md § BuiltInToolsRegistry: VectorSearch; tool-type.md § 2.1"""
    asked: list[SearchTools] = []

    async def find(request: SearchTools) -> ToolsFound:
        asked.append(request)
        hit = ToolHit(
            id="skill:git-commit",
            name="git-commit",
            description="生成Git提交信息",
            score=0.9,
            cosine=0.6,
            tool_type=ToolType.SKILL,
        )
        return ToolsFound(results=(hit,), took_ms=1.0)

    responder = Responder(bus.client, "retriever", "0.0.0", bus.metrics)
    await responder.start(route(SEARCH_TOOLS, find))
    tools = make_builtin_tools(bus.caller, tmp_path)
    answer = await tools.get_tool("search_tools").call("home", {"query": "帮我提交代码", "tool_types": ["skill"]})
    await responder.drain()
    assert answer.text == "1. skill:git-commit (skill, score 0.90): git-commit. 生成Git提交信息"
    assert [(request.query, request.project, request.tool_types) for request in asked] == [
        ("帮我提交代码", "home", (ToolType.SKILL,))
    ]


async def test_a_search_without_a_retriever_is_unavailable(bus: Bus, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as raised:
        await make_builtin_tools(bus.caller, tmp_path).get_tool("search_tools").call("default", {"query": "x"})
    assert raised.value.code is ErrorCode.UNAVAILABLE


async def test_files_of_a_project_lie_below_the_folder_that_was_set(bus: Bus, tmp_path: Path) -> None:
    """tool-system.md § BuiltInToolsRegistry: FileWrite, FileRead"""
    tools = make_builtin_tools(bus.caller, tmp_path / "files")
    await tools.get_tool("write_file").call("home", {"path": "a/b.txt", "content": "汉字"})
    assert (tmp_path / "files" / "home" / "a" / "b.txt").read_text() == "汉字"
    assert (await tools.get_tool("read_file").call("home", {"path": "a/b.txt"})).text == "汉字"
