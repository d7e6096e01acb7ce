"""Runs as Server-Sent Events, and what is left of runs."""

import json
from datetime import UTC, datetime

import httpx
import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.sandbox.run_history import (
    CANCEL_RUN,
    GET_RUN,
    LIST_RUNS,
    ListRuns,
    OutputStream,
    RunCancelled,
    RunEvent,
    RunEventKind,
    RunRecord,
    RunSelector,
    RunsListed,
    RunState,
)
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL, RunLimits, RunSkill

from .fakes import World
from .test_runs import inline, ran, request_of

RUN = "0123456789abcdef" * 2
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = RunLimits(
    wall_s=1, cpu_s=1, memory_bytes=1, processes=1, output_bytes=1, artifacts=1, artifacts_bytes=1, work_bytes=1
)
RECORD = RunRecord(
    run_id=RUN,
    skill="calculate",
    content_digest="0" * 64,
    action="run",
    state=RunState.OK,
    began_at=NOW,
    ends_by=NOW,
    limits=LIMITS,
)
WANTING = {"Accept": "text/event-stream"}


def tell(world: World, *parts: tuple[OutputStream, bytes]) -> None:
    """Have a whole run told."""
    world.feed.told.put_nowait(RunEvent(run_id=RUN, number=0, kind=RunEventKind.BEGUN))
    for number, (stream, data) in enumerate(parts, 1):
        event = RunEvent(run_id=RUN, number=number, kind=RunEventKind.OUTPUT, stream=stream, data=data)
        world.feed.told.put_nowait(event)
    last = RunEvent(run_id=RUN, number=len(parts) + 1, kind=RunEventKind.ENDED, state=RunState.OK)
    world.feed.told.put_nowait(last)


def events_of(answer: httpx.Response) -> list[tuple[str, dict[str, object]]]:
    """Name and data of each event."""
    blocks = [block.splitlines() for block in answer.text.split("\n\n") if block]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


async def test_a_followed_run_gives_its_output_and_then_what_is_answered_otherwise() -> None:
    world = World()
    world.caller.on(RUN_SKILL, lambda _: ran(inline(b"done")))
    tell(world, (OutputStream.STDOUT, b"do"), (OutputStream.STDERR, b"hm"), (OutputStream.STDOUT, b"ne"))
    async with world.client() as client:
        followed = await client.post("/api/skills/calculate/run?stream=true", json={"run_id": RUN})
        plain = await client.post("/api/skills/calculate/run", json={"run_id": RUN})
    events = events_of(followed)
    assert followed.headers["Content-Type"].startswith("text/event-stream")
    assert [name for name, _ in events] == ["begun", "output", "output", "output", "reply"]
    assert events[0][1] == {"run_id": RUN}
    assert [(data["stream"], data["text"]) for name, data in events if name == "output"] == [
        ("stdout", "do"),
        ("stderr", "hm"),
        ("stdout", "ne"),
    ]
    assert events[-1][1] == plain.json()
    assert world.feed.listened_to == [RUN]
    assert world.feed.listening == 0


async def test_a_run_is_told_only_to_those_who_follow_it() -> None:
    world = World()
    world.caller.on(RUN_SKILL, lambda _: ran(inline(b"")))
    tell(world)
    async with world.client() as client:
        await client.post("/api/skills/calculate/run", json={}, headers=WANTING)
        assert request_of(world).stream
        await client.post("/api/skills/calculate/run", json={})
        assert not request_of(world).stream


async def test_a_character_that_comes_in_two_pieces_is_whole_and_half_a_one_is_replaced() -> None:
    world = World()
    world.caller.on(RUN_SKILL, lambda _: ran(inline(b"")))
    han = "好".encode()
    tell(world, (OutputStream.STDOUT, han[:1]), (OutputStream.STDERR, b"-"), (OutputStream.STDOUT, han[1:] + han[:2]))
    async with world.client() as client:
        events = events_of(await client.post("/api/skills/calculate/run", json={}, headers=WANTING))
    text = dict.fromkeys(OutputStream, "")
    for name, data in events:
        if name == "output":
            text[OutputStream(str(data["stream"]))] += str(data["text"])
    assert text == {OutputStream.STDOUT: "好\ufffd", OutputStream.STDERR: "-"}


async def test_a_followed_run_that_is_refused_is_a_problem_and_no_stream() -> None:
    world = World()
    world.caller.on(RUN_SKILL, lambda _: RequestError(ErrorCode.SKILL_NOT_FOUND, "There is none."))
    async with world.client() as client:
        answer = await client.post("/api/skills/calculate/run", json={}, headers=WANTING)
    assert (answer.status_code, answer.json()["code"]) == (404, "skill_not_found")
    assert world.feed.listening == 0


async def test_a_followed_run_that_breaks_off_ends_with_an_error() -> None:
    world = World()
    gone = inline(b"").model_copy(update={"inline": None, "object_name": f"{RUN}/stdout"})
    world.caller.on(RUN_SKILL, lambda _: ran(gone))
    tell(world)
    async with world.client() as client:
        events = events_of(await client.post("/api/skills/calculate/run", json={}, headers=WANTING))
    assert [name for name, _ in events] == ["begun", "error"]
    assert events[-1][1]["code"] == "not_found"


async def test_an_id_that_is_no_id_is_refused() -> None:
    async with World().client() as client:
        answers = [
            await client.post("/api/skills/calculate/run", json={"run_id": "my-run"}),
            await client.get("/api/runs/my-run"),
            await client.delete(f"/api/runs/{RUN.upper()}"),
        ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(400, "invalid_request")] * 3


async def test_runs_are_listed_looked_at_and_cancelled() -> None:
    world = World()
    world.caller.on(LIST_RUNS, lambda _: RunsListed(runs=(RECORD,), next="7"))
    world.caller.on(GET_RUN, lambda _: RECORD)
    world.caller.on(CANCEL_RUN, lambda _: RunCancelled(run_id=RUN, ending=True))
    where: dict[str, str | int] = {"project": "p", "skill": "calculate", "state": "ok", "limit": 3, "after": "9"}
    async with world.client() as client:
        listed = await client.get("/api/runs", params=where)
        one = await client.get(f"/api/runs/{RUN}", params={"project": "p"})
        cancelled = await client.delete(f"/api/runs/{RUN}", params={"project": "p"})
    assert (listed.json()["runs"], listed.json()["next"]) == ([RECORD.model_dump(mode="json")], "7")
    assert one.json() == RECORD.model_dump(mode="json")
    assert cancelled.json() == {"run_id": RUN, "ending": True}
    assert [request for _, request in world.caller.asked] == [
        ListRuns.model_validate(where),
        RunSelector(project="p", run_id=RUN),
        RunSelector(project="p", run_id=RUN),
    ]


@pytest.mark.parametrize("where", [{"state": "done"}, {"limit": 0}, {"after": "x"}, {"skill": "No Name"}])
async def test_a_list_against_the_contract_is_refused(where: dict[str, str | int]) -> None:
    async with World().client() as client:
        answer = await client.get("/api/runs", params=where)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


async def test_the_id_that_a_caller_chose_is_the_runs() -> None:
    world = World()
    world.caller.on(RUN_SKILL, lambda _: ran(inline(b"")))
    async with world.client() as client:
        await client.post("/api/skills/calculate/run", json={"run_id": RUN})
    assert request_of(world) == RunSkill(name="calculate", run_id=RUN)
