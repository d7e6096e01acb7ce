"""Pages of MCP servers, as a browser gets them."""

import pytest

from skillbus.contracts.agent.mcp_servers import (
    GET_MCP_SERVER,
    LIST_MCP_SERVERS,
    McpServer,
    McpServersListed,
    McpServerSource,
)
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.tools import GET_TOOL, LIST_TOOLS, ToolFinding, ToolsListed

from .fakes import KEY, World
from .page_visits import EVIL, assert_harmless, get_page
from .test_tool_pages import NOW, SUMMARY, TOOL

PAGE = "/mcp-servers/files"
SERVER = McpServer(
    name="files",
    transport="http",
    address=EVIL,
    header_names=(EVIL,),
    env_names=(EVIL,),
    timeout_s=20,
    state="failed",
    problem=EVIL,
    server_name=EVIL,
    server_version=EVIL,
    tools=3,
    quarantined=1,
    findings=(ToolFinding(code="renamed", message=EVIL, where=EVIL),),
    listed_at=NOW,
    registered_at=NOW,
)


@pytest.fixture
def world() -> World:
    made = World(key=KEY)
    made.caller.on(LIST_MCP_SERVERS, lambda _: McpServersListed(servers=(SERVER,), file_problem=EVIL))
    made.caller.on(GET_MCP_SERVER, lambda _: SERVER)
    made.caller.on(LIST_TOOLS, lambda _: ToolsListed(tools=(SUMMARY,), total=1))
    made.caller.on(GET_TOOL, lambda _: TOOL)
    return made


@pytest.mark.parametrize("path", ["/mcp-servers", PAGE])
async def test_no_text_of_a_server_becomes_markup(world: World, path: str) -> None:
    answer = await get_page(world, path)
    assert_harmless(answer)


async def test_a_server_shows_what_waits_in_quarantine_with_its_differences(world: World) -> None:
    page = (await get_page(world, PAGE)).text
    asked = [request.model_dump(exclude_defaults=True, mode="json") for name, request in world.caller.asked]
    assert {"source": "mcp:files", "limit": 200} in asked
    assert {"source": "mcp:files", "limit": 20, "states": ["quarantined"]} in asked
    assert "<del>" in page
    assert f'name="digest" value="{"1" * 64}"' in page


async def test_each_role_sees_what_it_may_do(world: World) -> None:
    keys = {role: world.add_key(role, "default") for role in Role}
    lists = {role: (await get_page(world, "/mcp-servers", key)).text for role, key in keys.items()}
    shown = {role: (await get_page(world, PAGE, key)).text for role, key in keys.items()}
    assert [role for role, page in lists.items() if 'data-testid="register"' in page] == [Role.ADMIN]
    for control in ("refresh", "remove", "accept"):
        assert [role for role, page in shown.items() if f'data-testid="{control}"' in page] == [Role.ADMIN], control


async def test_a_server_of_the_operators_file_is_not_removed_here(world: World) -> None:
    world.caller.on(GET_MCP_SERVER, lambda _: SERVER.model_copy(update={"source": McpServerSource.FILE}))
    page = (await get_page(world, PAGE)).text
    assert 'data-testid="remove"' not in page
    assert "mcp.json" in page


async def test_without_the_indexer_the_server_is_still_shown(world: World) -> None:
    world.caller.on(LIST_TOOLS, lambda _: RequestError(ErrorCode.UNAVAILABLE, "No indexer is running."))
    page = await get_page(world, PAGE)
    assert page.status_code == 200
    assert page.text.count("(<code>unavailable</code>)") == 1
    assert 'data-testid="refresh"' in page.text


@pytest.mark.parametrize("path", ["/mcp-servers", "/mcp"])
async def test_a_person_without_a_login_is_led_to_it_and_a_program_gets_a_document(world: World, path: str) -> None:
    async with world.client(key=None) as client:
        client.headers.pop("Authorization", None)
        answer = await client.get(path, headers={"Accept": "text/html"})
    if path == "/mcp":
        assert answer.headers["content-type"] == "application/problem+json"
    else:
        assert answer.headers["location"] == "/login?next=%2Fmcp-servers"
