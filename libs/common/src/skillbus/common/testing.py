"""Helpers for tests of skillbus and of software built on it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

ValueT = TypeVar("ValueT")

WAIT_S: Final = 5.0
_POLL_S: Final = 0.02


async def eventually(
    read: Callable[[], Awaitable[ValueT]], holds: Callable[[ValueT], object], wait_s: float = WAIT_S
) -> ValueT:
    """Poll a value that another process changes until `holds` accepts it, and return it.

    Raises:
        AssertionError: It was not accepted within `wait_s` seconds; the message holds the last value.
    """
    value = await read()
    try:
        async with asyncio.timeout(wait_s):
            while not holds(value):
                await asyncio.sleep(_POLL_S)
                value = await read()
    except TimeoutError:
        raise AssertionError(f"not so after {wait_s} s: {value!r}") from None
    return value
