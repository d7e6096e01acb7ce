"""Who waits for the index hears of it, whichever came first."""

import asyncio

from skillbus.contracts.learner.knowledge import KnowledgeRef
from skillbus.learner.domain.index.index_waiter import REMEMBERED, IndexWaiter

LONG_S = 5.0
SHORT_S = 0.02


def ref(item_id: str, version: int = 1, project: str = "default") -> KnowledgeRef:
    return KnowledgeRef(project=project, id=item_id, version=version)


async def test_a_wait_ends_when_the_last_of_its_items_is_told() -> None:
    waiting = IndexWaiter(LONG_S)
    wait = asyncio.create_task(waiting.wait_until_indexed([ref("a"), ref("b")]))
    await asyncio.sleep(0)

    waiting.mark_indexed([ref("a")])
    await asyncio.sleep(0)
    assert not wait.done()

    waiting.mark_indexed([ref("b")])
    assert await wait == 0


async def test_what_was_told_before_somebody_waits_counts() -> None:
    waiting = IndexWaiter(SHORT_S)
    waiting.mark_indexed([ref("a", 3)])
    assert not await waiting.wait_until_indexed([ref("a", 3)])


async def test_a_newer_version_ends_the_wait_for_an_older_one_and_not_the_other_way_round() -> None:
    waiting = IndexWaiter(SHORT_S)
    waiting.mark_indexed([ref("a", 2)])
    waiting.mark_indexed([ref("a", 1)])
    assert not await waiting.wait_until_indexed([ref("a", 1), ref("a", 2)])
    assert await waiting.wait_until_indexed([ref("a", 3)])


async def test_an_item_of_the_same_id_in_another_project_ends_no_wait() -> None:
    waiting = IndexWaiter(SHORT_S)
    waiting.mark_indexed([ref("a", project="other")])
    assert await waiting.wait_until_indexed([ref("a")])


async def test_a_wait_is_bounded_and_leaves_nothing_behind() -> None:
    waiting = IndexWaiter(SHORT_S)
    assert await waiting.wait_until_indexed([ref("a")])
    assert not waiting._waits


async def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    waiting = IndexWaiter(LONG_S)
    wait = asyncio.create_task(waiting.wait_until_indexed([ref("a")]))
    await asyncio.sleep(0)
    wait.cancel()
    await asyncio.wait({wait})
    assert wait.cancelled()
    assert not waiting._waits


async def test_several_can_wait_for_one_item() -> None:
    waiting = IndexWaiter(LONG_S)
    waits = [asyncio.create_task(waiting.wait_until_indexed([ref("a", version)])) for version in (1, 2)]
    await asyncio.sleep(0)
    waiting.mark_indexed([ref("a", 1)])
    assert await waits[0] == 0
    assert not waits[1].done()
    waiting.mark_indexed([ref("a", 2)])
    assert await waits[1] == 0


async def test_only_so_many_are_remembered() -> None:
    waiting = IndexWaiter(SHORT_S)
    waiting.mark_indexed([ref(f"item-{at}") for at in range(REMEMBERED + 1)])
    assert await waiting.wait_until_indexed([ref("item-0")])
    assert not await waiting.wait_until_indexed([ref("item-1")])


async def test_nothing_to_wait_for_is_indexed() -> None:
    assert not await IndexWaiter(SHORT_S).wait_until_indexed([])
