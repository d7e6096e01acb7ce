"""Reading of feeds whose messages can be lost."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import TypeVar

EventT = TypeVar("EventT")


async def yield_pauses(events: AsyncIterator[EventT], pause_s: float) -> AsyncGenerator[EventT | None]:
    """Yield the messages, and None after each silence of `pause_s` seconds."""
    getting: asyncio.Future[EventT] | None = None
    try:
        while True:
            getting = getting or asyncio.ensure_future(anext(events))
            await asyncio.wait([getting], timeout=pause_s)
            if not getting.done():
                yield None
                continue
            event = await getting
            getting = None
            yield event
    finally:
        if getting is not None:
            getting.cancel()
            with suppress(asyncio.CancelledError):
                await getting
