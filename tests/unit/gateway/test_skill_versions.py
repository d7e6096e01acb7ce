"""The life of a skill over HTTP."""

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skill_record import SkillFinding, SkillVersion
from skillbus.contracts.indexer.skills import (
    APPROVE_NETWORK,
    CHECK_SKILL,
    GET_SKILL,
    GET_SKILL_HISTORY,
    LIST_SKILLS,
    PIN_SKILL,
    ROLL_BACK_SKILL,
    ApproveNetwork,
    InstallSkill,
    ListSkills,
    PinSkill,
    RollBackSkill,
    SkillChecked,
    SkillHistory,
    SkillInstalled,
    SkillSelector,
    SkillsListed,
)
from skillbus.contracts.indexer.tools import SET_TOOL_STATE, CatalogueTool, SetToolState, ToolDescription, ToolState
from skillbus.contracts.resources import INCOMING_PREFIX
from skillbus.gateway.domain.package_installer import INLINE_BYTES
from skillbus.gateway.settings import GatewaySettings

from .fakes import CALCULATE, World

CHECKED = SkillChecked(
    valid=False, installable=True, warnings=(SkillFinding(code="no_version", message="has no version"),)
)
VERSION = SkillVersion(
    content_digest="cd" * 32,
    digest="ab" * 32,
    description="数学计算",
    installed_at=CALCULATE.installed_at,
    reason="installed",
)
DISABLED = CatalogueTool(
    tool=ToolDescription(id="skill:calculate", name="calculate", source="skills"),
    state=ToolState.DISABLED,
    digest="0" * 64,
    created_at=CALCULATE.installed_at,
    updated_at=CALCULATE.updated_at,
)


@pytest.mark.parametrize("size_bytes", [10, INLINE_BYTES + 1])
async def test_a_package_is_checked_and_nothing_of_it_stays(size_bytes: int) -> None:
    world = World()
    world.caller.on(CHECK_SKILL, lambda _: CHECKED)
    async with world.client() as client:
        answer = await client.post(
            "/api/skills/check", files={"package": ("p.zip", b"x" * size_bytes)}, data={"project": "p"}
        )
    assert (answer.status_code, answer.json()) == (200, CHECKED.model_dump(mode="json"))
    (name, request), *others = world.caller.asked
    assert isinstance(request, InstallSkill)
    assert (name, request.project, request.package.size_bytes, others) == ("check_skill", "p", size_bytes, [])
    assert bool(world.packages.puts) is (size_bytes > INLINE_BYTES)
    assert all(put.startswith(INCOMING_PREFIX) for put in world.packages.puts)
    assert not world.packages.held


async def test_a_check_that_fails_leaves_nothing_either() -> None:
    world = World(settings=GatewaySettings(upload_patience_s=0))
    world.caller.on(CHECK_SKILL, lambda _: RequestError(ErrorCode.UNAVAILABLE, "No indexer."))
    async with world.client() as client:
        answer = await client.post("/api/skills/check", files={"package": ("p.zip", b"x" * (INLINE_BYTES + 1))})
    assert answer.status_code == 503
    assert not world.packages.held


async def test_a_package_of_any_size_that_can_be_installed_can_be_checked() -> None:
    world = World()
    world.caller.on(CHECK_SKILL, lambda _: CHECKED)
    async with world.client() as client:
        answer = await client.post("/api/skills/check", files={"package": ("p.zip", b"x" * 2 * 1024 * 1024)})
    assert answer.status_code == 200


async def test_a_skill_has_a_history_that_can_be_gone_back_to() -> None:
    world = World()
    history = SkillHistory(name="calculate", versions=(VERSION,))
    world.caller.on(GET_SKILL_HISTORY, lambda _: history)
    world.caller.on(ROLL_BACK_SKILL, lambda _: SkillInstalled(outcome="updated", skill=CALCULATE))
    async with world.client() as client:
        told = await client.get("/api/skills/calculate/history?project=p")
        before = await client.post("/api/skills/calculate/rollback?project=p")
        named = await client.post("/api/skills/calculate/rollback", json={"content_digest": "cd" * 32})
    assert told.json() == history.model_dump(mode="json")
    assert before.json() == named.json() == CALCULATE.model_dump(mode="json") | {"outcome": "updated"}
    assert [request for _, request in world.caller.asked] == [
        SkillSelector(name="calculate", project="p"),
        RollBackSkill(name="calculate", project="p"),
        RollBackSkill(name="calculate", content_digest="cd" * 32),
    ]


async def test_a_skill_is_pinned_disabled_and_back() -> None:
    world = World()
    world.caller.on(PIN_SKILL, lambda _: CALCULATE)
    world.caller.on(GET_SKILL, lambda _: CALCULATE)
    world.caller.on(SET_TOOL_STATE, lambda _: DISABLED)
    async with world.client() as client:
        steps = ("pin", "unpin", "disable", "enable")
        answers = [await client.post(f"/api/skills/calculate/{step}?project=p") for step in steps]
    assert all(answer.json() == CALCULATE.model_dump(mode="json") for answer in answers)
    got = SkillSelector(name="calculate", project="p")
    assert [request for _, request in world.caller.asked] == [
        PinSkill(name="calculate", project="p", pinned=True),
        PinSkill(name="calculate", project="p", pinned=False),
        SetToolState(project="p", id="skill:calculate", enabled=False),
        got,
        SetToolState(project="p", id="skill:calculate", enabled=True),
        got,
    ]


async def test_the_network_of_a_skill_is_approved_place_by_place() -> None:
    world = World()
    world.caller.on(APPROVE_NETWORK, lambda _: CALCULATE)
    async with world.client() as client:
        path = "/api/skills/calculate/network"
        answer = await client.put(f"{path}?project=p", json={"approved": ["API.example.org:443"]})
        refused = [await client.put(path, json=body) for body in ({}, {"approved": ["*:443"]}, {"approved": "a:1"})]
    assert answer.json() == CALCULATE.model_dump(mode="json")
    assert [each.status_code for each in refused] == [400, 400, 400]
    assert [request for _, request in world.caller.asked] == [
        ApproveNetwork(name="calculate", project="p", approved=("api.example.org:443",))
    ]


async def test_skills_are_listed_by_what_they_are() -> None:
    world = World()
    world.caller.on(LIST_SKILLS, lambda _: SkillsListed(skills=(), total=0))
    async with world.client() as client:
        await client.get("/api/skills", params={"tag": "math", "enabled": "false", "text": "数学"})
    assert world.caller.asked[0][1] == ListSkills(tag="math", enabled=False, text="数学")
