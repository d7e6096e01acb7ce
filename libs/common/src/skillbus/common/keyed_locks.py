"""Locks by key: work on one thing is serialized, work on different things is not."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

KeyT = TypeVar("KeyT", bound=str | tuple[object, ...])


class KeyedLocks(Generic[KeyT]):
    """Locks of one process. A lock exists only while somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[KeyT, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, *keys: KeyT) -> AsyncGenerator[None]:
        """Hold the locks of all keys. They are acquired in sorted order, so that two holders cannot deadlock."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):
                await stack.enter_async_context(self._locks.setdefault(key, asyncio.Lock()))
            yield
