"""Tasks that go on whatever they meet."""

import asyncio
from collections.abc import Sequence

from structlog.testing import capture_logs

from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.maintenance import keep_reconciled

SOON_S = (0.001,)


async def rounds(outcomes: Sequence[bool], again_s: Sequence[float]) -> tuple[list[bool], list[str]]:
    """What a part did that fails where an outcome is False, and with which levels its failures were logged."""
    stop, wanted, done = asyncio.Event(), asyncio.Event(), list[bool]()

    async def part() -> None:
        done.append(outcomes[len(done)])
        if len(done) == len(outcomes):
            stop.set()
            wanted.set()
        if not done[-1]:
            raise IndexUnavailableError("away")

    with capture_logs() as logs:
        async with asyncio.timeout(5):
            await keep_reconciled({"part": part}, 3600, wanted, stop, again_s)
    return done, [log["log_level"] for log in logs]


async def test_what_failed_is_tried_again_before_its_time_until_it_is_done() -> None:
    done, _ = await rounds([False, False, False], SOON_S)
    assert done == [False, False, False]


async def test_the_same_failure_again_is_no_warning() -> None:
    _, levels = await rounds([False, False, False], SOON_S)
    assert levels == ["warning", "debug", "debug"]


async def test_a_part_that_fails_does_not_keep_the_others_from_their_turn() -> None:
    stop, wanted, done = asyncio.Event(), asyncio.Event(), list[str]()

    async def fails() -> None:
        raise IndexUnavailableError("away")

    async def ends() -> None:
        done.append("done")
        stop.set()
        wanted.set()

    async with asyncio.timeout(5):
        await keep_reconciled({"fails": fails, "ends": ends}, 3600, wanted, stop)
    assert done == ["done"]
