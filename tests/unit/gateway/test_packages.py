import hashlib

import httpx
import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skills import INSTALL_SKILL, InstallSkill, SkillInstalled
from skillbus.contracts.message import Message
from skillbus.contracts.resources import INCOMING_PREFIX
from skillbus.gateway.domain.package_installer import INLINE_BYTES
from skillbus.gateway.settings import GatewaySettings

from .fakes import CALCULATE, World

LARGE = bytes(range(256)) * 2048
DIGEST = hashlib.sha256(LARGE).hexdigest()


async def upload(world: World, package: bytes, **form: str) -> httpx.Response:
    async with world.client() as client:
        return await client.post("/api/skills", files={"package": ("p.zip", package)}, data=form)


def installed(_: Message) -> SkillInstalled:
    return SkillInstalled(outcome="installed", skill=CALCULATE)


def request_of(world: World) -> InstallSkill:
    request = world.caller.asked[-1][1]
    assert isinstance(request, InstallSkill)
    return request


async def test_an_installed_skill_is_answered_with_what_the_catalogue_has_of_it() -> None:
    world = World()
    world.caller.on(INSTALL_SKILL, installed)
    answer = await upload(world, b"PK")
    assert answer.status_code == 201
    assert answer.json() == {**CALCULATE.model_dump(mode="json"), "outcome": "installed"}
    assert {"name", "version", "digest", "warnings", "entry_points", "indexed", "tags"} <= answer.json().keys()


async def test_a_small_package_travels_in_the_message() -> None:
    world = World()
    world.caller.on(INSTALL_SKILL, installed)
    small = LARGE[:INLINE_BYTES]
    await upload(world, small, project="team-a")
    request = request_of(world)
    assert request.project == "team-a"
    assert request.package.inline == small
    assert request.package.sha256 == hashlib.sha256(small).hexdigest()
    assert not world.packages.puts


async def test_a_large_package_goes_through_the_object_store_under_a_name_of_its_own() -> None:
    world = World()
    world.caller.on(INSTALL_SKILL, installed)
    await upload(world, LARGE)
    package = request_of(world).package
    await upload(world, LARGE)
    assert package.object_name is not None
    assert package.object_name.startswith(INCOMING_PREFIX)
    assert world.packages.held[package.object_name] == LARGE
    assert (package.size_bytes, package.sha256) == (len(LARGE), DIGEST)
    assert len(set(world.packages.puts)) == 2


@pytest.mark.parametrize("code", [ErrorCode.SKILL_REJECTED, ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.CONFLICT])
async def test_a_rejected_package_is_taken_out_of_the_store_again(code: ErrorCode) -> None:
    world = World()
    rejected = RequestError(code, "SKILL.md is missing.", details={"errors": [{"code": "NO_SKILL_MD"}]})
    world.caller.on(INSTALL_SKILL, lambda _: rejected)
    answer = await upload(world, LARGE)
    assert (answer.json()["code"], answer.json()["details"]) == (code, rejected.details)
    assert len(world.packages.puts) == 1
    assert not world.packages.held


async def test_a_package_that_was_installed_and_taken_out_before_its_reply_was_lost_is_sent_again() -> None:
    world, taken = World(), list[str]()

    def take_out_once(request: Message) -> SkillInstalled | Exception:
        assert isinstance(request, InstallSkill)
        if not taken:
            taken.append(request.package.object_name or "")
            del world.packages.held[taken[0]]
            return RequestError(ErrorCode.NOT_FOUND, "It is not there: it was dealt with.")
        assert request.package.object_name in world.packages.held
        return SkillInstalled(outcome="unchanged", skill=CALCULATE)

    world.caller.on(INSTALL_SKILL, take_out_once)
    answer = await upload(world, LARGE)
    assert (answer.status_code, answer.json()["outcome"]) == (201, "unchanged")
    assert world.packages.puts == taken * 2


async def test_an_upload_waits_for_a_bus_and_an_indexer_that_are_away_for_a_moment() -> None:
    world = World(GatewaySettings(upload_patience_s=2))
    answers = [RequestError(ErrorCode.UNAVAILABLE, "No indexer is running.")]
    world.packages.failures = [RequestError(ErrorCode.DEADLINE_EXCEEDED, "Could not put it in 5 s.")]
    world.caller.on(INSTALL_SKILL, lambda request: answers.pop() if answers else installed(request))
    answer = await upload(world, LARGE)
    assert answer.status_code == 201
    assert list(world.packages.held.values()) == [LARGE]
    assert len(world.packages.puts) == 2
    assert len(world.caller.asked) == 2


async def test_an_upload_gives_up_when_its_patience_ends() -> None:
    world = World(settings=GatewaySettings(upload_patience_s=0.2))
    answer = await upload(world, b"PK")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["Retry-After"]
    assert len(world.caller.asked) == 2


async def test_a_package_over_the_limit_that_fits_into_the_form_is_refused() -> None:
    world = World(settings=GatewaySettings(package_bytes=1000))
    answer = await upload(world, bytes(1001))
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert not world.caller.asked
