"""MCP tools in a running skillbus: registered, found, called and audited three ways."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.mcp_file import add_entry, add_script

from skillbus.common.bus.caller import Caller
from skillbus.contracts.agent.mcp_servers import McpServerSource, McpServerState
from skillbus.contracts.agent.tool_calls import AUDIT_CALLABLE, CALL_TOOL, AuditCallable, CallTool
from skillbus.contracts.indexer.tools import AUDIT_INDEX, GET_TOOL, AuditIndex, GetTool, ToolState
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools
from skillbus.standalone.app import StandaloneSettings, open_standalone

from .conftest import SERVERS

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def mcp_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("together") / "data" / "mcp.json"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def caller(mcp_file: Path) -> AsyncGenerator[Caller]:
    async with open_standalone(StandaloneSettings(data=mcp_file.parent, http_port=0)) as running:
        yield running.bus.caller


async def found(caller: Caller, query: str) -> list[str]:
    return [hit.id for hit in (await caller.call(SEARCH_TOOLS, SearchTools(query=query))).results]


async def is_whole(caller: Caller) -> bool:
    """Whether catalogue, vectors and what can be called agree."""
    callable_ = await caller.call(AUDIT_CALLABLE, AuditCallable())
    index = await caller.call(AUDIT_INDEX, AuditIndex())
    return (callable_.differences, callable_.silent, index.differences) == ((), (), ())


@pytest.mark.timeout(120)
async def test_a_server_from_npm_is_found_called_and_audited(caller: Caller, mcp_file: Path, everything: Path) -> None:
    registered = await add_entry(caller, mcp_file, "everything", command="node", args=[str(everything)])
    assert (registered.state, registered.problem, registered.findings) == (McpServerState.CONNECTED, None, ())
    assert (await found(caller, "get the sum of two numbers"))[0] == "mcp:everything/get-sum"
    called = await caller.call(CALL_TOOL, CallTool(id="mcp:everything/get-sum", arguments={"a": 2, "b": 3}))
    assert "5" in called.text
    pictured = await caller.call(CALL_TOOL, CallTool(id="mcp:everything/get-tiny-image"))
    (link,) = (part for part in pictured.content if isinstance(part, dict) and part["type"] == "resource_link")
    assert (link["uri"], link["mimeType"]) == (f"skillbus://calls/{pictured.run_id}/image-1.png", "image/png")
    assert await is_whole(caller)


async def test_a_server_as_the_sdk_shows_it_is_found_called_and_audited(caller: Caller, mcp_file: Path) -> None:
    server = await add_script(caller, mcp_file, "friendly", [SERVERS / "friendly.py"])
    assert (server.state, server.source) == (McpServerState.CONNECTED, McpServerSource.FILE)
    assert "mcp:friendly/add" in await found(caller, "把两个数相加")
    assert (await caller.call(CALL_TOOL, CallTool(id="mcp:friendly/add", arguments={"a": 2, "b": 3}))).text == "5"
    assert await is_whole(caller)


@pytest.mark.timeout(120)
async def test_instructions_beyond_what_is_kept_of_a_description_hold_the_tool_and_flag_the_server(
    caller: Caller, mcp_file: Path
) -> None:
    server = await add_script(caller, mcp_file, "novel", [SERVERS / "hostile.py", "novel"], timeout_s=30)
    flagged = {(finding.code, finding.where) for finding in server.findings}
    assert ("instructions_to_the_model", "novel") in flagged
    assert (server.tools, server.quarantined) == (2, 1)
    novel = await caller.call(GET_TOOL, GetTool(id="mcp:novel/novel"))
    good = await caller.call(GET_TOOL, GetTool(id="mcp:novel/good"))
    assert (novel.state, good.state) == (ToolState.QUARANTINED, ToolState.ACTIVE)
    assert "instructions_to_the_model" in {finding.code for finding in novel.findings}
    assert "Ignore" not in novel.tool.description
    assert "mcp:novel/novel" not in await found(caller, "word")
