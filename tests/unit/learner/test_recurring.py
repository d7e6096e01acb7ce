"""Work that comes again: by the clock, when it is woken, and whatever it met."""

import asyncio
from collections.abc import Callable

from skillbus.common.testing import eventually
from skillbus.learner.domain.errors import KnowledgeUnavailableError
from skillbus.learner.domain.recurring_task import PostponedError, Recurring, kept_up

NEVER_S = 3_600.0
SOON_S = 0.01


class Work:
    """Counts its rounds; the first ones go as they are given."""

    def __init__(self, *rounds: Callable[[], bool]) -> None:
        self.rounds = list(rounds)
        self.done = 0

    async def __call__(self) -> bool:
        self.done += 1
        return self.rounds.pop(0)() if self.rounds else False

    async def count(self) -> int:
        return self.done


def fails(error: Exception) -> Callable[[], bool]:
    def round_of_work() -> bool:
        raise error

    return round_of_work


async def test_work_is_done_at_once_and_when_it_is_woken() -> None:
    work = Work()
    recurring = Recurring("work", work, NEVER_S)
    async with kept_up([recurring]):
        await eventually(work.count, lambda count: count == 1)
        recurring.wake()
        await eventually(work.count, lambda count: count == 2)


async def test_work_is_done_by_the_clock() -> None:
    work = Work()
    async with kept_up([Recurring("work", work, SOON_S)]):
        await eventually(work.count, lambda count: count >= 3)


async def test_work_that_is_not_over_goes_on_at_once() -> None:
    work = Work(lambda: True, lambda: True)
    async with kept_up([Recurring("work", work, NEVER_S)]):
        await eventually(work.count, lambda count: count == 3)


async def test_work_that_fails_comes_again_by_the_clock() -> None:
    work = Work(fails(PostponedError("away")), fails(KnowledgeUnavailableError("away")), fails(ZeroDivisionError()))
    async with kept_up([Recurring("work", work, SOON_S)]):
        await eventually(work.count, lambda count: count >= 4)


async def test_work_that_failed_is_not_tried_again_each_time_that_it_is_woken() -> None:
    work = Work(fails(PostponedError("away")))
    recurring = Recurring("work", work, NEVER_S)
    async with kept_up([recurring]):
        await eventually(work.count, lambda count: count == 1)
        recurring.wake()
        await asyncio.sleep(SOON_S)
        assert work.done == 1


async def test_work_ends_with_the_context_even_where_a_cancellation_is_swallowed() -> None:
    begun = asyncio.Event()

    async def stubborn() -> bool:
        begun.set()
        try:
            await asyncio.sleep(NEVER_S)
        except asyncio.CancelledError:
            return True
        return False

    async with asyncio.timeout(5):
        async with kept_up([Recurring("work", stubborn, NEVER_S)]):
            await begun.wait()
