"""Batches of entries, written two at a time."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

T = TypeVar("T")

BATCH: Final = 32
"""Entries in one embedding request and one write. Larger batches keep searches in the same process waiting."""
_CONCURRENT_BATCHES: Final = 2
"""While one batch is written, the next is embedded."""


@asynccontextmanager
async def open_task_group() -> AsyncGenerator[asyncio.TaskGroup]:
    """Open a task group that raises the first error of its tasks instead of an exception group."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors


async def gather_all(waiting: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Run coroutines concurrently and return their results. The first error cancels the others."""
    async with open_task_group() as tasks:
        started = [tasks.create_task(one) for one in waiting]
    return [task.result() for task in started]


async def write_batches(items: Sequence[T], write: Callable[[Sequence[T]], Awaitable[None]]) -> None:
    """Write items in batches, two at a time."""
    batches = iter([items[at : at + BATCH] for at in range(0, len(items), BATCH)])

    async def write_rest(batches: Iterator[Sequence[T]]) -> None:
        for batch in batches:
            await write(batch)

    async with open_task_group() as tasks:
        for _ in range(_CONCURRENT_BATCHES):
            tasks.create_task(write_rest(batches))
