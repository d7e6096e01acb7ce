"""Start page: the first things to do on an empty installation, and what waits later."""

import re
import sys
import zipfile
from pathlib import Path

import pytest

from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.tools import LIST_TOOLS, ListTools, ToolsListed, ToolState, ToolType
from skillbus.contracts.learner.items import LIST_KNOWLEDGE, KnowledgeListed, ListKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.message import Message
from skillbus.gateway.domain.knowledge_markdown import parse_markdown
from skillbus.gateway.service.pages.rendering import ASSETS

from .fakes import KEY, World
from .page_visits import get_page

EXAMPLES = Path(__file__).parents[3] / "examples"
PACKED = ASSETS / "examples"


def make_world(*, items: int = 0, examples: int = 0, pending: int = 0, skills: int = 0, quarantined: int = 0) -> World:
    made = World(key=KEY)

    def list_items(request: Message) -> Message:
        assert isinstance(request, ListKnowledge)
        active = examples if request.source == "examples" else items
        return KnowledgeListed(items=(), total=pending if KnowledgeStatus.PENDING in request.statuses else active)

    def list_tools(request: Message) -> Message:
        assert isinstance(request, ListTools)
        total = quarantined if ToolState.QUARANTINED in request.states else skills + 11
        return ToolsListed(tools=(), total=skills if ToolType.SKILL in request.tool_types else total)

    made.caller.on(LIST_KNOWLEDGE, list_items)
    made.caller.on(LIST_TOOLS, list_tools)
    return made


def list_done(page: str) -> list[str]:
    return re.findall(r'data-testid="done-([a-z]+)"', page)


async def test_the_root_leads_to_the_start_page() -> None:
    async with make_world().client() as client:
        assert (await client.get("/")).headers["Location"] == "/start"


async def test_an_empty_installation_greets_with_three_things_to_do_from_the_page() -> None:
    page = (await get_page(make_world(), "/start")).text
    assert "Welcome" in page
    assert 'data-testid="pending"' not in page
    assert list_done(page) == []
    assert len(re.findall(r'name="example" value="/assets/examples/', page)) == len(list(PACKED.iterdir())) >= 20
    assert 'href="/knowledge/new"' in page
    assert 'data-testid="make-key"' in page
    assert not re.search(r"https?://(?!127\.0\.0\.1)", page)


async def test_what_is_done_gets_a_check_mark_and_at_the_end_the_list_goes() -> None:
    world = make_world(skills=15, items=7, examples=7)
    assert list_done((await get_page(world, "/start")).text) == ["examples"]
    world = make_world(skills=15, items=8, examples=7)
    assert list_done((await get_page(world, "/start")).text) == ["examples", "knowledge"]
    async with world.client() as client:
        made = await client.post("/api/keys", json={"label": "a", "role": "runner", "projects": ["default"]})
    assert made.status_code == 201
    page = (await get_page(world, "/start")).text
    assert 'data-testid="first-steps"' not in page
    assert 'data-testid="connect-agent"' in page
    assert 'data-testid="make"' in page
    assert made.json()["key"] not in page


@pytest.mark.parametrize(
    ("host", "command"),
    [("127.0.0.1", str(Path(sys.executable).with_name("skillbus"))), ("skillbus.example.com", "skillbus")],
)
async def test_the_lines_for_clients_name_the_command_of_the_machine_that_shows_them(host: str, command: str) -> None:
    async with make_world(items=8).client() as client:
        page = (await client.get("/start", headers={"Accept": "text/html", "Host": host})).text
    assert f'{{"command": "{command}", "args": ["mcp", "serve", "--url", "{{origin}}"]' in page
    assert "/path/to" not in page


async def test_later_the_page_shows_what_waits_and_leads_there() -> None:
    page = (await get_page(make_world(items=8, pending=3, quarantined=2, skills=1), "/start")).text
    assert re.search(r'href="/review" data-testid="pending"><b>3</b>', page)
    assert re.search(r'href="/tools\?state=quarantined" data-testid="quarantined"><b>2</b>', page)
    assert 'data-testid="query"' in page


@pytest.mark.parametrize(
    ("role", "buttons"),
    [
        (Role.READER, []),
        (Role.RUNNER, []),
        (Role.EDITOR, ["install", "add-knowledge"]),
        (Role.ADMIN, ["install", "add-knowledge", "make"]),
    ],
)
async def test_each_role_sees_what_it_may_do(role: Role, buttons: list[str]) -> None:
    world = make_world()
    page = (await get_page(world, "/start", world.add_key(role, "mine"))).text
    assert re.findall(r'data-testid="(install|add-knowledge|make)"', page) == buttons
    assert 'data-project="mine"' in page


async def test_a_service_that_is_down_is_named_and_the_rest_is_shown() -> None:
    world = make_world(items=8, skills=1)
    del world.caller.handlers[LIST_KNOWLEDGE.subject]
    answer = await get_page(world, "/start")
    assert answer.status_code == 200
    assert "<code>unavailable</code>" in answer.text
    assert "list_knowledge" in answer.text
    assert "<b>12</b>" in answer.text
    assert "Welcome" not in answer.text
    assert 'data-testid="first-steps"' not in answer.text


def test_the_examples_of_the_page_are_those_of_the_repository() -> None:
    skills = {path.parent.name: path.parent for path in EXAMPLES.glob("skills/*/SKILL.md")}
    assert {path.stem for path in PACKED.glob("*.zip")} == skills.keys(), "run `make documents`"
    for name, folder in skills.items():
        paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        with zipfile.ZipFile(PACKED / f"{name}.zip") as packed:
            assert {one: packed.read(one) for one in packed.namelist()} == files, "run `make documents`"
    items = {path.name: path.read_text("utf-8") for path in EXAMPLES.glob("knowledge/*.md")}
    assert {path.name: path.read_text("utf-8") for path in PACKED.glob("*.md")} == items, "run `make documents`"
    assert all(parse_markdown(text) for text in items.values())
