"""For tests of skillbus and of what is built on it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

ValueT = TypeVar("ValueT")

WAIT_S: Final = 5.0
_EVERY_S: Final = 0.02


async def eventually(
    read: Callable[[], Awaitable[ValueT]], holds: Callable[[ValueT], object], wait_s: float = WAIT_S
) -> ValueT:
    """Read until the value is as it should be: for what another process changes and tells nobody.

    Raises:
        AssertionError: It was not so within `wait_s` seconds; the message holds the last value.
    """
    value = await read()
    try:
        async with asyncio.timeout(wait_s):
            while not holds(value):
                await asyncio.sleep(_EVERY_S)
                value = await read()
    except TimeoutError:
        raise AssertionError(f"not so after {wait_s} s: {value!r}") from None
    return value


SANDBOX_MOUNTS: Final = ("newroot", "oldroot", "skillbus", "pytest-")
"""What stands in the line of a mount that a sandbox left: bubblewrap's own words, our folders, a test's."""


def sandbox_mounts() -> set[str]:
    """Mounts in sight that a sandbox may have left; those of neighbours come and go."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in lines if any(word in line for word in SANDBOX_MOUNTS)}
