"""Tasks that end together, and batches that a few of them write."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

T = TypeVar("T")
BATCH: Final = 32
"""Tools that are embedded by one request and written by one call: in one process searches wait for either to end."""
_AT_ONCE: Final = 2
"""Batches under way: while one is written, the next is embedded already."""


@asynccontextmanager
async def together() -> AsyncGenerator[asyncio.TaskGroup]:
    """A task group that raises the first error of its tasks as it is, not as a group."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors


async def all_of(waiting: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """The results of all, side by side; the first error ends the others."""
    async with together() as tasks:
        made = [tasks.create_task(one) for one in waiting]
    return [task.result() for task in made]


async def in_batches(things: Sequence[T], write: Callable[[Sequence[T]], Awaitable[None]]) -> None:
    """Write things in batches, a few at a time."""
    batches = iter([things[at : at + BATCH] for at in range(0, len(things), BATCH)])
    async with together() as tasks:
        for _ in range(_AT_ONCE):
            tasks.create_task(_each(batches, write))


async def _each(batches: Iterator[Sequence[T]], write: Callable[[Sequence[T]], Awaitable[None]]) -> None:
    for batch in batches:
        await write(batch)
