"""Runs that somebody else started, as they go on."""

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.message import Message
from skillbus.contracts.sandbox.run_history import GET_RUN, OutputStream, RunRecord, RunState

from .fakes import KEY, World
from .test_followed_runs import RECORD, RUN, events_of, tell

EVENTS = f"/api/runs/{RUN}/events"
GOING = RECORD.model_copy(update={"state": RunState.RUNNING})


def make_world(*states: RunRecord | RequestError) -> World:
    """Return a gateway whose sandbox answers with one state after the other, and then repeats the last."""
    world = World(key=KEY)
    left = list(states)

    def answer(_: Message) -> RunRecord | RequestError:
        return left.pop(0) if len(left) > 1 else left[0]

    world.caller.on(GET_RUN, answer)
    return world


async def test_a_run_that_prints_is_told_to_its_end() -> None:
    world = make_world(GOING, GOING, RECORD)
    tell(world, (OutputStream.STDOUT, "é".encode()[:1]), (OutputStream.STDOUT, "é".encode()[1:]))
    async with world.client() as client:
        answer = await client.get(EVENTS)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer)
    assert [name for name, _ in events] == ["running", "output", "ended"]
    assert events[1][1] == {"number": 2, "stream": "stdout", "text": "é"}
    assert RunRecord.model_validate(events[2][1]) == RECORD
    assert world.feed.listening == 0


async def test_a_run_without_a_feed_is_told_to_its_end() -> None:
    world = make_world(GOING, GOING, GOING, RECORD)
    async with world.client() as client:
        events = events_of(await client.get(EVENTS))
    assert [name for name, _ in events] == ["running", "ended"]


async def test_a_run_whose_end_is_told_before_it_is_recorded_ends_with_its_record() -> None:
    world = make_world(GOING, GOING, GOING, RECORD)
    tell(world)
    async with world.client() as client:
        events = events_of(await client.get(EVENTS))
    assert [(name, data["state"]) for name, data in events] == [("running", "running"), ("ended", "ok")]


async def test_a_run_that_has_ended_has_one_event() -> None:
    world = make_world(RECORD)
    async with world.client() as client:
        events = events_of(await client.get(EVENTS))
    assert [name for name, _ in events] == ["ended"]


async def test_a_sandbox_that_goes_away_ends_the_stream_with_its_error() -> None:
    world = make_world(GOING, GOING, RequestError(ErrorCode.UNAVAILABLE, "No sandbox is running."))
    async with world.client() as client:
        events = events_of(await client.get(EVENTS))
    assert [name for name, _ in events] == ["running", "error"]
    assert events[1][1]["code"] == "unavailable"
    assert world.feed.listening == 0


async def test_nobody_listens_to_a_run_that_their_project_does_not_have() -> None:
    world = make_world(RequestError(ErrorCode.NOT_FOUND, "no"))
    async with world.client() as client:
        answer = await client.get(EVENTS)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert world.feed.listened_to == []


@pytest.mark.parametrize(("query", "status", "asked"), [("", 200, 1), ("?project=other", 403, 0)])
async def test_a_reader_watches_the_runs_of_the_own_project(query: str, status: int, asked: int) -> None:
    world = make_world(RECORD)
    async with world.client(world.add_key(Role.READER, "default")) as client:
        answer = await client.get(EVENTS + query)
    assert (answer.status_code, len(world.feed.listened_to)) == (status, asked)
