"""Waits until the index has written items."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, TypeAlias

from skillbus.common.background import finish_within
from skillbus.contracts.learner.knowledge import KnowledgeRef

_Key: TypeAlias = tuple[str, str]
"""Project and id of an item."""

REMEMBERED: Final = 10_000
"""Items remembered as indexed, latest last: the index may be faster than the code that begins to wait for it."""


class _Wait:
    def __init__(self, missing: dict[_Key, int]) -> None:
        self.missing = missing
        self.over = asyncio.Event()

    def mark(self, key: _Key, version: int) -> None:
        if self.missing.get(key, version + 1) <= version:
            del self.missing[key]
            if not self.missing:
                self.over.set()


class IndexWaiter:
    """Requests of this replica that wait for the index. Notices may come twice and in any order."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._indexed: OrderedDict[_Key, int] = OrderedDict()
        self._waits: set[_Wait] = set()

    async def wait_until_indexed(self, refs: Sequence[KnowledgeRef], within_s: float | None = None) -> int:
        """Wait until the index has all items at these versions or newer ones, and return how many it lacks.

        Waits up to `within_s` seconds, by default those of the settings.
        """
        missing: dict[_Key, int] = {}
        for ref in refs:
            key = (ref.project, ref.id)
            if self._indexed.get(key, 0) < ref.version:
                missing[key] = max(ref.version, missing.get(key, 0))
        if missing:
            wait = _Wait(missing)
            self._waits.add(wait)
            try:
                await finish_within(wait.over.wait(), self._within_s if within_s is None else within_s)
            finally:
                self._waits.discard(wait)
        return len(missing)

    def mark_indexed(self, refs: Sequence[KnowledgeRef]) -> None:
        """End waits for items that the index now has."""
        for ref in refs:
            key = (ref.project, ref.id)
            self._indexed[key] = max(ref.version, self._indexed.pop(key, 0))
            for wait in self._waits:
                wait.mark(key, ref.version)
        while len(self._indexed) > REMEMBERED:
            self._indexed.popitem(last=False)
