"""Pages of the catalogue of tools, as a browser gets them."""

import re
from datetime import UTC, datetime

import pytest

from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.tool_functions import DESCRIBE_TOOLS, ToolFunction, ToolsDescribed
from skillbus.contracts.indexer.tools import (
    GET_TOOL,
    LIST_TOOLS,
    CatalogueTool,
    ToolDescription,
    ToolFieldChange,
    ToolFinding,
    ToolsListed,
    ToolState,
    ToolSummary,
)

from .fakes import KEY, World
from .page_visits import EVIL, assert_harmless, get_page

ID = "mcp:files/read <b>?#"
PAGE = "/tools/mcp%3Afiles/read%20%3Cb%3E%3F%23"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SUMMARY = ToolSummary(
    id=ID, name=EVIL, description=EVIL, tool_type="mcp", source="mcp:files", state="active", findings=2, updated_at=NOW
)
TOOL = CatalogueTool(
    tool=ToolDescription(id=ID, name=EVIL, description=EVIL, source="mcp:files", provider=EVIL, tags=(EVIL,)),
    digest="0" * 64,
    state=ToolState.QUARANTINED,
    pending_digest="1" * 64,
    findings=(ToolFinding(code="hidden_characters", message=EVIL, where=EVIL),),
    changes=(ToolFieldChange(field=EVIL, before=EVIL, after=[EVIL]),),
    created_at=NOW,
    updated_at=NOW,
)
SCHEMA = {
    "type": "object",
    "required": ["path"],
    "properties": {
        "path": {"type": "string", "description": EVIL},
        EVIL: {"type": "integer"},
        "mode": {"enum": ["a", EVIL]},
        "deep": {"type": "boolean"},
        "rest": {"type": "object"},
        "odd": True,
    },
}
FUNCTION = ToolFunction(id=ID, action=EVIL, description=EVIL, parameters=SCHEMA)


@pytest.fixture
def world() -> World:
    made = World(key=KEY)
    made.caller.on(LIST_TOOLS, lambda _: ToolsListed(tools=(SUMMARY,), total=101, next=ID))
    made.caller.on(GET_TOOL, lambda _: TOOL)
    made.caller.on(DESCRIBE_TOOLS, lambda _: ToolsDescribed(functions=(FUNCTION,)))
    return made


@pytest.mark.parametrize("path", ["/tools", PAGE])
async def test_no_text_of_a_tool_becomes_markup(world: World, path: str) -> None:
    answer = await get_page(world, path)
    assert_harmless(answer)


async def test_the_catalogue_has_its_filters_in_the_address_and_links_to_the_next_page(world: World) -> None:
    page = await get_page(world, "/tools?tool_type=mcp&state=quarantined&source=mcp:files&text=read")
    asked = world.caller.asked[-1][1].model_dump(exclude_defaults=True, mode="json")
    assert asked == {"tool_types": ["mcp"], "states": ["quarantined"], "source": "mcp:files", "text": "read"}
    assert "101 tools" in page.text
    assert f'href="{PAGE}"' in page.text
    assert "after=mcp%3Afiles%2Fread" in page.text


async def test_a_tool_has_a_field_for_each_argument_by_its_type(world: World) -> None:
    page = (await get_page(world, PAGE)).text
    assert world.caller.asked[0][1].model_dump()["id"] == ID
    kinds = re.findall(r'data-kind="([a-z]+)"', page)
    assert kinds == ["string", "number", "string", "boolean", "json", "json"]
    assert f'data-try="/api{PAGE}/call"' in page


async def test_each_role_sees_what_it_may_do(world: World) -> None:
    shown = {role: (await get_page(world, PAGE, world.add_key(role, "default"))).text for role in Role}
    assert [role for role, page in shown.items() if 'data-testid="call"' in page] == [
        Role.RUNNER,
        Role.EDITOR,
        Role.ADMIN,
    ]
    assert [role for role, page in shown.items() if 'data-testid="accept"' in page] == [Role.ADMIN]
    assert f'value="{"1" * 64}"' in shown[Role.ADMIN]


async def test_a_disabled_tool_can_be_enabled_and_has_nothing_to_try(world: World) -> None:
    world.caller.on(GET_TOOL, lambda _: TOOL.model_copy(update={"state": ToolState.DISABLED}))
    world.caller.on(DESCRIBE_TOOLS, lambda _: ToolsDescribed(functions=()))
    page = (await get_page(world, PAGE)).text
    assert 'data-testid="enable"' in page
    assert 'data-testid="no-function"' in page
