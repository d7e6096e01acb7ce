"""Retry of idempotent calls while a service is away."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from skillbus.contracts.errors import ErrorCode, RequestError

T = TypeVar("T")

AWAY: Final = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.DEADLINE_EXCEEDED, ErrorCode.OVERLOADED})
"""Errors of a service that is away or busy for the moment."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0


async def retry_while_away(attempt: Callable[[], Awaitable[T]], until: float) -> T:
    """Repeat an idempotent call while its service is away. `until` is a time of the event loop."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await attempt()
        except RequestError as error:
            if error.code not in AWAY or asyncio.get_running_loop().time() + pause_s > until:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
