"""The index of knowledge follows its record whatever happens meanwhile."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import count

import pytest

from skillbus.contracts.errors import RequestError
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.knowledge import ATTEMPTS

from ..switching.world import A, collection
from .world import ARCHIVED, PENDING, FakeRecord, World, item, key


async def test_only_active_items_have_points_and_all_are_told_of() -> None:
    world = World(item("a"), item("b", 2, ARCHIVED), item("c", 3, PENDING))
    await world.follower.follow_items([key("a"), key("b"), key("c"), key("unknown")])
    world.assert_agrees()
    assert sorted(world.announcer.said) == [("a", 1), ("b", 2), ("c", 3)]


async def test_a_point_of_what_the_record_does_not_know_goes() -> None:
    world = World()
    world.collections.points[collection(A)][key("unknown")] = "?"
    await world.follower.follow_items([key("unknown")])
    world.assert_agrees()
    assert world.announcer.said == []


async def test_what_the_index_has_already_is_told_and_not_written_again() -> None:
    world = World(item("a"))
    await world.follower.follow_items([key("a")])
    written = list(world.collections.written)
    await world.follower.follow_items([key("a"), key("a")])
    assert world.collections.written == written
    assert world.announcer.said == [("a", 1), ("a", 1)]


LATER = {
    "archived": (item("a", 2, ARCHIVED),),
    "changed": (item("a", 2),),
    "archived and restored": (item("a", 2, ARCHIVED), item("a", 3)),
}


class Meanwhile:
    """Runs something once, at a call."""

    def __init__(self, number: int, does: Callable[[], Awaitable[None]]) -> None:
        self._number = number
        self._does = does
        self.ran = False

    async def __call__(self, at: int) -> None:
        if at == self._number:
            self.ran = True
            await self._does()


async def interrupted(number: int, when: str, later: Sequence[KnowledgeItem]) -> bool:
    """One replica follows; at this call of its, items change, and another follows them. Whether it came to the call."""
    world = World(item("a"), item("b"))
    other, _ = world.replica()

    async def change() -> None:
        for one in later:
            world.record.has(one)
            await other.follow_items([key("a")])

    meanwhile = Meanwhile(number, change)
    setattr(world.calls, when, meanwhile)
    await world.follower.follow_items([key("a"), key("b")])
    world.assert_agrees()
    return meanwhile.ran


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_item_that_another_replica_follows_meanwhile_ends_as_the_record_has_it(when: str, later: str) -> None:
    """At any call of the one the other goes all the way; a point of an item that was archived never stays."""
    for number in count(1):
        if not await interrupted(number, when, LATER[later]):
            assert number > 6
            return


async def test_an_item_that_is_archived_at_any_call_is_followed_before_that_is_told() -> None:
    for number in count(1):
        world = World(item("a", 1))

        async def archive(record: FakeRecord = world.record) -> None:
            record.has(item("a", 2, ARCHIVED))

        world.calls.after = meanwhile = Meanwhile(number, archive)
        await world.follower.follow_items([key("a")])
        if not meanwhile.ran:
            assert number > 5
            return
        (told,) = world.announcer.said
        there = key("a") in world.collections.points[collection(A)]
        assert (told, there) in {(("a", 1), True), (("a", 2), False)}


async def test_nothing_is_told_while_the_record_or_the_index_is_away() -> None:
    world = World(item("a"))
    world.record.away = True
    with pytest.raises(RequestError):
        await world.follower.follow_items([key("a")])
    world.record.away = False
    world.collections.points.clear()
    with pytest.raises(IndexUnavailableError):
        await world.follower.follow_items([key("a")])
    assert world.announcer.said == []


async def test_the_first_item_opens_an_index_of_all_that_the_record_has() -> None:
    world = World(item("a"), item("b"), item("c", 2, PENDING), opened=False)
    await world.follower.follow_items([key("a")])
    assert set(world.collections.points[collection(A)]) == {key("a"), key("b")}
    assert world.announcer.said == [("a", 1)]


async def test_no_collection_is_made_while_the_record_is_away() -> None:
    world = World(item("a"), opened=False)
    world.record.away = True
    with pytest.raises(IndexUnavailableError):
        await world.reconciler.compare_index()
    assert world.collections.points == {}


async def test_what_is_heard_of_while_the_record_is_away_is_tried_again_and_then_left_to_the_comparison() -> None:
    world = World(item("a"))
    world.record.away = True
    for attempt in range(1, ATTEMPTS):
        with pytest.raises(RequestError):
            await world.follower.follow_event([key("a")], attempt)
    assert world.wanted_comparisons == 0
    await world.follower.follow_event([key("a")], ATTEMPTS)
    assert world.wanted_comparisons == 1


async def test_what_is_followed_at_the_last_try_needs_no_comparison() -> None:
    world = World(item("a"))
    await world.follower.follow_event([key("a")], ATTEMPTS)
    assert world.wanted_comparisons == 0
    world.assert_agrees()
