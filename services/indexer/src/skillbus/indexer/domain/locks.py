"""One lock a skill: two changes of one skill in this process wait for each other; those of others do not."""

import asyncio
from weakref import WeakValueDictionary


class SkillLocks:
    """Locks by project and name, kept while someone holds or waits for them."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def of(self, project: str, name: str) -> asyncio.Lock:
        """The lock of a skill."""
        return self._locks.setdefault((project, name), asyncio.Lock())
