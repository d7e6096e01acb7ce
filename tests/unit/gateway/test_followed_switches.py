"""Switches of indexes to another model, as they go on."""

from collections.abc import Sequence
from datetime import UTC, datetime

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.index_switch import (
    LIST_INDEXES,
    IndexesListed,
    IndexModel,
    IndexState,
    IndexSwitch,
    SwitchPhase,
    SwitchProgress,
)
from skillbus.contracts.message import Message

from .fakes import KEY, World
from .test_followed_runs import events_of

EVENTS = "/api/indexes/events"
MODEL = IndexModel(collection="c", fingerprint="f", name="small", dimensions=3)


def make_switch(phase: SwitchPhase, done: int) -> IndexSwitch:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    return IndexSwitch(id="s", phase=phase, source=None, target=MODEL, done=done, total=9, started_at=now)


def list_indexes(switch: IndexSwitch | None) -> IndexesListed:
    still = IndexState(alias="devices", live=MODEL)
    return IndexesListed(indexes=(IndexState(alias="tools", live=MODEL, switch=switch), still))


GOING = make_switch(SwitchPhase.BACKFILLING, 3)
FURTHER = make_switch(SwitchPhase.VERIFYING, 9)
KEPT = make_switch(SwitchPhase.KEPT, 9)


def make_world(*replies: IndexesListed | RequestError, events: int = 0) -> World:
    """Return a gateway whose indexer gives one reply after the other, and announces so many steps."""
    world = World(key=KEY)
    left = list(replies)

    def answer(_: Message) -> IndexesListed | RequestError:
        return left.pop(0)

    world.caller.on(LIST_INDEXES, answer)
    for _ in range(events):
        world.switch_feed.told.put_nowait(SwitchProgress(alias="tools", switch=FURTHER))
    return world


async def follow(world: World) -> Sequence[tuple[str, dict[str, object]]]:
    async with world.client() as client:
        answer = await client.get(EVENTS)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert world.switch_feed.listening == 0
    return events_of(answer)


async def test_a_switch_is_followed_to_its_end() -> None:
    steps = [list_indexes(switch) for switch in (GOING, FURTHER, KEPT)]
    events = await follow(make_world(*steps, events=2))
    assert [name for name, _ in events] == ["progress", "progress", "ended"]
    assert [IndexesListed.model_validate(data) for _, data in events] == steps


async def test_an_event_that_changed_nothing_is_not_passed_on() -> None:
    going = list_indexes(GOING)
    events = await follow(make_world(going, going, list_indexes(KEPT), events=2))
    assert [name for name, _ in events] == ["progress", "ended"]


async def test_without_a_switch_there_is_one_event() -> None:
    assert [name for name, _ in await follow(make_world(list_indexes(None)))] == ["ended"]


async def test_an_indexer_that_goes_away_ends_the_stream_with_its_error() -> None:
    away = RequestError(ErrorCode.UNAVAILABLE, "No indexer is running.")
    events = await follow(make_world(list_indexes(GOING), away, events=1))
    assert [name for name, _ in events] == ["progress", "error"]
    assert events[1][1]["code"] == "unavailable"


async def test_without_an_indexer_no_stream_starts() -> None:
    async with World(key=KEY).client() as client:
        answer = await client.get(EVENTS)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
