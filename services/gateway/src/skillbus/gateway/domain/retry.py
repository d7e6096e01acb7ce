"""Asking again while the other side is away."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from skillbus.contracts.errors import ErrorCode, RequestError

T = TypeVar("T")

_AWAY: Final = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.DEADLINE_EXCEEDED, ErrorCode.OVERLOADED})
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0


async def patiently(attempt: Callable[[], Awaitable[T]], until: float) -> T:
    """Try again while the other side is away; `until` is a time of the loop. Only for what may be done twice."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await attempt()
        except RequestError as error:
            if error.code not in _AWAY or asyncio.get_running_loop().time() + pause_s > until:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
