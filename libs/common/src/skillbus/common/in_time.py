"""Waiting that is bounded where things are ended: in a task that may itself be cancelled.

There `asyncio.timeout` of Python before 3.11.4 ends in CancelledError, not in TimeoutError, and what should come after
the wait does not.
"""

import asyncio
from collections.abc import Awaitable


async def in_time(work: Awaitable[object], within_s: float) -> bool:
    """Whether `work` came to its end; it is cancelled when it does not. Raises what `work` raises."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=max(within_s, 0))
    finally:
        over = task.done()
        if not over:
            task.cancel()
    if over:
        await task
    return over
