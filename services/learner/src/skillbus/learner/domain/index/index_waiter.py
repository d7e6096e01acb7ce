"""Waiting until the index has what was written."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, TypeAlias

from skillbus.contracts.learner.knowledge import KnowledgeRef

_Key: TypeAlias = tuple[str, str]

REMEMBERED: Final = 10_000
"""Items that were told of last, for those who begin to wait after it: the index may be faster than a reply."""


class _Wait:
    """Somebody who waits for items at versions."""

    def __init__(self, wanted: dict[_Key, int]) -> None:
        self.wanted = wanted
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def told(self, key: _Key, version: int) -> None:
        if self.wanted.get(key, version + 1) <= version:
            del self.wanted[key]
        if not self.wanted and not self.over.done():
            self.over.set_result(None)


class IndexWaiter:
    """Who waits for which items, in this replica. What it is told twice or out of order does no harm."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._told: OrderedDict[_Key, int] = OrderedDict()
        self._waits: dict[_Key, list[_Wait]] = {}

    async def indexed(self, refs: Sequence[KnowledgeRef]) -> bool:
        """Whether the index has all of them, at their versions or newer ones; waits at most `within_s` seconds."""
        wait = _Wait(self._missing(refs))
        if not wait.wanted:
            return True
        keys = list(wait.wanted)
        for key in keys:
            self._waits.setdefault(key, []).append(wait)
        try:
            await asyncio.wait((wait.over,), timeout=self._within_s)
        finally:
            self._forget(wait, keys)
        return not wait.wanted

    def told(self, refs: Sequence[KnowledgeRef]) -> None:
        """The index has these."""
        for ref in refs:
            key = (ref.project, ref.id)
            self._told[key] = max(ref.version, self._told.pop(key, 0))
            for wait in self._waits.get(key, ()):
                wait.told(key, ref.version)
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)

    def _missing(self, refs: Sequence[KnowledgeRef]) -> dict[_Key, int]:
        wanted: dict[_Key, int] = {}
        for ref in refs:
            key = (ref.project, ref.id)
            if self._told.get(key, 0) < ref.version:
                wanted[key] = max(ref.version, wanted.get(key, 0))
        return wanted

    def _forget(self, wait: _Wait, keys: Sequence[_Key]) -> None:
        for key in keys:
            others = [other for other in self._waits.get(key, ()) if other is not wait]
            if others:
                self._waits[key] = others
            else:
                self._waits.pop(key, None)
