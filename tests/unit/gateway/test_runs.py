import base64
import hashlib
import re

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Content, Message
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL, Artifact, RunSkill, RunStatus, SkillRan
from skillbus.gateway.domain.runs.skill_runner import ARTIFACT_BYTES

from .fakes import World

RUN = "0123456789abcdef0123456789abcdef"


def inline(data: bytes) -> Content:
    return Content(size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), inline=data)


def stored(world: World, name: str, data: bytes) -> Content:
    world.run_files.held[name] = data
    return Content(size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), object_name=name)


def ran(stdout: Content, *artifacts: Artifact) -> SkillRan:
    return SkillRan(
        run_id=RUN,
        status=RunStatus.OK,
        exit_code=0,
        stdout=stdout,
        stderr=inline(b"\xffwarn"),
        result={"value": 9},
        artifacts=artifacts,
        duration_ms=12.5,
        truncated=False,
        isolation="bubblewrap",
        detail="the network was asked for and not given",
    )


async def run(world: World, **body: object) -> dict[str, object]:
    async with world.client() as client:
        answer = await client.post("/api/skills/calculate/run", json=body)
    problem_or_reply: dict[str, object] = answer.json()
    return problem_or_reply


def request_of(world: World) -> RunSkill:
    request = world.caller.asked[-1][1]
    assert isinstance(request, RunSkill)
    return request


async def test_a_run_is_answered_with_text_and_not_with_references() -> None:
    world = World()
    long = "好".encode() * 1_000_000
    world.caller.on(RUN_SKILL, lambda _: ran(stored(world, f"{RUN}/stdout", long)))
    reply = await run(world, action="eval", args={"expression": "(1 + 2) * 3"}, timeout_s=5)
    assert reply == {
        "run_id": RUN,
        "status": "ok",
        "exit_code": 0,
        "stdout": long.decode(),
        "stderr": "\ufffdwarn",
        "result": {"value": 9},
        "artifacts": [],
        "duration_ms": 12.5,
        "truncated": False,
        "isolation": "bubblewrap",
        "detail": "the network was asked for and not given",
        "limits": None,
        "used": None,
    }
    asked = request_of(world)
    assert re.fullmatch("[0-9a-f]{32}", asked.run_id or "")
    assert asked == RunSkill(
        name="calculate",
        action="eval",
        args={"expression": "(1 + 2) * 3"},
        timeout_s=5,
        run_id=asked.run_id,
        run_id_is_new=True,
    )


async def test_small_artifacts_come_along_and_large_ones_by_url() -> None:
    world = World()
    report, huge = b"report", bytes(ARTIFACT_BYTES + 1)
    world.caller.on(
        RUN_SKILL,
        lambda _: ran(
            inline(b""),
            Artifact(name="a.txt", content=inline(b"hi")),
            Artifact(name="报告.xlsx", content=stored(world, f"{RUN}/out/报告.xlsx", report)),
            Artifact(name="huge.bin", content=stored(world, f"{RUN}/out/huge.bin", huge)),
        ),
    )
    async with world.client() as client:
        reply = (await client.post("/api/skills/x/run", json={})).json()
        fetched = await client.get(reply["artifacts"][1]["url"])
        fetched_huge = await client.get(reply["artifacts"][2]["url"])

    contents = [(item["name"], item["content"], item["url"] is not None) for item in reply["artifacts"]]
    assert contents == [
        ("a.txt", base64.b64encode(b"hi").decode(), False),
        ("报告.xlsx", base64.b64encode(report).decode(), True),
        ("huge.bin", None, True),
    ]
    assert reply["artifacts"][2]["sha256"] == hashlib.sha256(huge).hexdigest()
    assert (fetched.content, fetched_huge.content) == (report, huge)


async def test_an_artifact_is_saved_and_never_shown_by_a_browser() -> None:
    world = World()
    world.run_files.held[f'{RUN}/out/sub/a"b.html'] = b"<script>"
    async with world.client() as client:
        answer = await client.get(f"/api/runs/{RUN}/artifacts/sub/a%22b.html")
    assert answer.content == b"<script>"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''a%22b.html"


@pytest.mark.parametrize(
    "path", ["in/artifacts/0", "..%2Fpackages/artifacts/x", "short/artifacts/x", f"{RUN}/artifacts/a%0Ab"]
)
async def test_only_ids_of_runs_reach_the_store(path: str) -> None:
    world = World()
    world.run_files.held["in/0"] = b"someone's input"
    async with world.client() as client:
        answer = await client.get(f"/api/runs/{path}")
    assert answer.json()["code"] in {"invalid_request", "not_found"}
    assert answer.status_code in {400, 404}


async def test_an_artifact_that_is_not_there_is_not_found() -> None:
    async with World().client() as client:
        answer = await client.get(f"/api/runs/{RUN}/artifacts/none.txt")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_small_files_travel_in_the_message() -> None:
    world = World()
    world.caller.on(RUN_SKILL, lambda _: ran(inline(b"")))
    await run(world, files={"a.csv": base64.b64encode(b"1,2").decode()})
    assert request_of(world).files == {"a.csv": inline(b"1,2")}
    assert not world.run_files.puts


async def test_large_files_go_through_the_object_store_for_as_long_as_the_run_takes() -> None:
    world, seen = World(), dict[str, bytes]()
    files = {"a.bin": bytes(200_000), "b.bin": b"b" * 100_000}

    def look(request: Message) -> SkillRan:
        assert isinstance(request, RunSkill)
        seen.update({name: world.run_files.held[content.object_name or ""] for name, content in request.files.items()})
        return ran(inline(b""))

    world.caller.on(RUN_SKILL, look)
    await run(world, files={name: base64.b64encode(data).decode() for name, data in files.items()})
    assert seen == files
    assert all(name.startswith("in/") for name in world.run_files.puts)
    assert not world.run_files.held


async def test_large_files_do_not_stay_when_the_run_is_refused_or_one_cannot_be_stored() -> None:
    refused, broken = World(), World()
    refused.caller.on(RUN_SKILL, lambda _: RequestError(ErrorCode.SKILL_NOT_FOUND, "There is no calculate."))
    broken.run_files.failures = [RequestError(ErrorCode.UNAVAILABLE, "The bus is not there.")]
    files = {"a": base64.b64encode(bytes(300_000)).decode()}
    assert (await run(refused, files=files))["code"] == "skill_not_found"
    assert (await run(broken, files=files))["code"] == "unavailable"
    assert not refused.run_files.held
    assert not broken.caller.asked


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("files.a", {"files": {"a": "not base64!"}}),
        ("timeout_s", {"timeout_s": 0}),
        ("timeout_s", {"timeout_s": 10**9}),
        ("argv", {"argv": ["x"] * 257}),
        ("body", {"args": {}, "argv": []}),
    ],
)
async def test_a_run_against_the_contract_is_not_begun(field: str, body: dict[str, object]) -> None:
    world = World()
    problem = await run(world, **body)
    details = problem["details"]
    assert isinstance(details, dict)
    assert (problem["code"], [item["field"] for item in details["fields"]]) == ("invalid_request", [field])
    assert not world.caller.asked


async def test_a_long_run_is_waited_for_longer_than_it_may_take() -> None:
    world = World()
    world.caller.on(RUN_SKILL, lambda _: ran(inline(b"")))
    await run(world, timeout_s=600)
    await run(world)
    assert world.caller.waits_s[0] is not None
    assert world.caller.waits_s[0] > 600
    assert world.caller.waits_s[1] == RUN_SKILL.timeout_s
