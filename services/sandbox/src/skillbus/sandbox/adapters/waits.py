"""Waits for a thread and for a file descriptor."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def run_in_thread(work: Callable[[], _T]) -> _T:
    """Run `work` in a thread. A cancelled caller still waits for its end, so that its files can be removed."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def wait_readable(descriptor: int) -> None:
    """Wait until `descriptor` has something to read, a connection to accept, or, for a pidfd, an ended process."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
