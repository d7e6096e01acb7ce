"""A comparison makes good for what was not heard, in either direction."""

from ..switching.world import A, collection
from .world import ARCHIVED, World, item, key


async def drifted() -> World:
    world = World(item("same"), item("stale"), item("ghost"))
    await world.follower.follow_items([key("same"), key("stale"), key("ghost")])
    world.record.has(item("stale", 2), item("ghost", 2, ARCHIVED), item("new"))
    world.announcer.said.clear()
    return world


async def test_what_differs_is_followed_and_told() -> None:
    world = await drifted()
    await world.reconciler.compare_index()
    world.assert_agrees()
    assert sorted(world.announcer.said) == [("ghost", 2), ("new", 1), ("stale", 2)]
    written, said = list(world.collections.written), list(world.announcer.said)
    await world.reconciler.compare_index()
    assert (world.collections.written, world.announcer.said) == (written, said)


async def test_what_the_learner_did_not_hear_is_said_again_and_not_written_again() -> None:
    world = await drifted()
    await world.reconciler.compare_index()
    world.record.indexed.clear()
    world.announcer.said.clear()
    written = list(world.collections.written)
    await world.reconciler.compare_index()
    assert sorted(world.announcer.said) == [("new", 1), ("same", 1), ("stale", 2)]
    assert world.collections.written == written


async def test_an_item_that_is_archived_during_a_comparison_leaves_no_point() -> None:
    world = await drifted()

    async def archive(_: int) -> None:
        world.record.has(item("new", 2, ARCHIVED))

    world.calls.after = archive
    await world.reconciler.compare_index()
    assert key("new") not in world.collections.points[collection(A)]
