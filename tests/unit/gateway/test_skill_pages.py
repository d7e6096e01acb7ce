"""Pages of skills, as a browser gets them."""

import inspect
import io
import re
import zipfile
from pathlib import Path

import pytest

from skillbus.agent.domain.servers import listing
from skillbus.common.archive.errors import ArchiveCode
from skillbus.common.prompt_injection import ENCODED, HIDDEN, INSTRUCTIONS
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.skill_record import EntryPoint, NetworkCallSite, SkillFinding, SkillScan, SkillVersion
from skillbus.contracts.indexer.skills import (
    GET_SKILL,
    GET_SKILL_HISTORY,
    LIST_SKILLS,
    SkillHistory,
    SkillsListed,
)
from skillbus.contracts.resources import make_package_name
from skillbus.contracts.sandbox.run_history import LIST_RUNS, RunsListed
from skillbus.gateway.service.pages.languages import load_finding_texts
from skillbus.indexer.domain.package.findings import FindingCode

from .fakes import CALCULATE, KEY, World
from .page_visits import EVIL, assert_harmless, get_page

PAGE = "/skills/calculate"
SKILL = CALCULATE.model_copy(
    update={
        "description": EVIL,
        "version": EVIL,
        "tags": (EVIL,),
        "license": EVIL,
        "entry_points": (EntryPoint(action="run", script="run.py", runtime="python", args_mode="none"),),
        "warnings": (SkillFinding(code="unknown_field", message=EVIL, where=EVIL),),
        "scan": SkillScan(
            files=2,
            unpacked_bytes=9,
            network=(NetworkCallSite(file=EVIL, line=3, what=EVIL),),
            executables=(EVIL,),
            unread=(EVIL,),
        ),
        "network": ("api.example.org:443", "b.example.org:443"),
        "network_approved": ("b.example.org:443",),
    }
)
VERSIONS = tuple(
    SkillVersion(
        content_digest=digest * 32,
        digest="ab" * 32,
        version=EVIL,
        description=EVIL,
        installed_at=CALCULATE.installed_at,
        reason="updated",
    )
    for digest in ("cd", "ee")
)


def make_package(document: str, **files: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("SKILL.md", document)
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.fixture
def world() -> World:
    made = World(key=KEY)
    made.caller.on(LIST_SKILLS, lambda _: SkillsListed(skills=(SKILL,), total=51, next="calculate"))
    made.caller.on(GET_SKILL, lambda _: SKILL)
    made.caller.on(GET_SKILL_HISTORY, lambda _: SkillHistory(name="calculate", versions=VERSIONS))
    made.caller.on(LIST_RUNS, lambda _: RunsListed(runs=()))
    document = f"---\nname: calculate\n---\n# How to calculate\n\n{EVIL} **bold**\n"
    packed = make_package(document, **{"a<b>.txt": "x"})
    made.packages.held[make_package_name("default", "calculate", SKILL.content_digest)] = packed
    return made


@pytest.mark.parametrize("path", ["/skills", PAGE])
async def test_no_text_of_a_skill_becomes_markup(world: World, path: str) -> None:
    answer = await get_page(world, path)
    assert_harmless(answer)


async def test_the_list_has_its_filters_in_the_address_and_links_to_the_next_page(world: World) -> None:
    page = await get_page(world, "/skills?enabled=false&text=sum")
    asked = world.caller.asked[-1][1].model_dump(exclude_defaults=True)
    assert asked == {"limit": 50, "enabled": False, "text": "sum"}
    assert "51 skills" in page.text
    assert "text=sum&amp;enabled=false&amp;after=calculate" in page.text


async def test_a_finding_is_explained_in_the_language_of_the_page_before_the_words_of_the_service(
    world: World,
) -> None:
    meaning = load_finding_texts("zh")["unknown_field"]
    assert meaning in (await get_page(world, PAGE, Accept_Language="zh")).text
    assert meaning not in (await get_page(world, PAGE)).text


def test_every_code_of_a_finding_is_translated() -> None:
    agent = Path(inspect.getfile(listing)).parent
    written = "".join(module.read_text("utf-8") for module in agent.glob("*.py"))
    codes = {*FindingCode, *ArchiveCode, HIDDEN, INSTRUCTIONS, ENCODED}
    codes |= {*re.findall(r'(?:ToolFinding\(code=|_RefusedError\()"([a-z_]+)"', written)}
    assert {"schema_invalid", "server_renamed", "no_skill_md", "not_a_zip"} <= codes
    assert load_finding_texts("zh").keys() == codes


async def test_a_skill_shows_its_document_files_versions_and_findings(world: World) -> None:
    page = (await get_page(world, PAGE)).text
    assert "<h1>How to calculate</h1>" in page
    assert "name: calculate" not in page
    assert f'href="/api{PAGE}/files/a%3Cb%3E.txt"' in page
    assert page.count('data-testid="roll-back"') == 1, "the current version offers no roll back"
    assert f'value="{"ee" * 32}"' in page
    assert "unknown_field" in page


async def test_a_part_whose_service_is_away_says_so_and_the_rest_is_shown(world: World) -> None:
    world.caller.on(LIST_RUNS, lambda _: RequestError(ErrorCode.UNAVAILABLE, "No sandbox is running."))
    world.packages.held.clear()
    page = await get_page(world, PAGE)
    assert page.status_code == 200
    assert re.findall(r"<code>(unavailable|not_found)</code>", page.text) == ["not_found", "unavailable"]
    assert 'data-testid="roll-back"' in page.text


async def test_each_role_sees_what_it_may_do(world: World) -> None:
    keys = {role: world.add_key(role, "default") for role in Role}
    shown = {role: (await get_page(world, PAGE, key)).text for role, key in keys.items()}
    lists = {role: (await get_page(world, "/skills", key)).text for role, key in keys.items()}

    def find(pages: dict[Role, str], control: str) -> list[Role]:
        return [role for role, page in pages.items() if f'data-testid="{control}"' in page]

    editors = [role for role in Role if role.includes(Role.EDITOR)]
    assert find(lists, "install") == editors
    for control in ("disable", "pin", "uninstall", "roll-back"):
        assert find(shown, control) == editors, control
    assert find(shown, "approve-network") == [Role.ADMIN]


async def test_a_pinned_or_disabled_skill_offers_what_changes_that(world: World) -> None:
    world.caller.on(GET_SKILL, lambda _: SKILL.model_copy(update={"pinned": True, "enabled": False}))
    page = (await get_page(world, PAGE)).text
    assert 'data-testid="unpin"' in page
    assert 'data-testid="enable"' in page
    assert 'data-testid="roll-back"' not in page
    assert "(<code>forbidden</code>)" in page, "files of a disabled skill are closed"
