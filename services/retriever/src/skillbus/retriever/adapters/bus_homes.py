"""Homes, loaded from the indexer over the bus, and a cache of them."""

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog
from cachetools import LRUCache

from skillbus.common.bus.caller import Caller
from skillbus.common.keyed_locks import KeyedLocks
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.devices import LOAD_HOME, Device, HomeLoaded, LoadHome
from skillbus.queryir.home import Home

_ATTEMPTS: Final = 5

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Cached:
    home: Home
    revision: int


class BusHomes:
    """A `HomeSource`. Each request asks whether the home has changed, so that none is answered by an old one.

    The cache is bounded by the devices of all homes in it; the homes that were used least recently go first. Five
    aliases count as a device: they take as much memory.
    """

    def __init__(self, caller: Caller, cached_devices: int) -> None:
        self._caller = caller
        self._homes: LRUCache[tuple[str, str], _Cached] = LRUCache(
            cached_devices, lambda cached: _weigh_home(cached.home)
        )
        self._loading: KeyedLocks[tuple[object, ...]] = KeyedLocks()

    async def load_home(self, project: str, name: str) -> Home:
        key = (project, name)
        cached = self._homes.get(key)
        try:
            first = await self._load_page(project, name, cached.revision if cached else None)
        except RequestError as error:
            if error.code is ErrorCode.NOT_FOUND:
                self._homes.pop(key, None)
            raise
        if cached and first.unchanged:
            return cached.home
        async with self._loading.hold(key):
            if (cached := self._homes.get(key)) and cached.revision == first.revision:
                return cached.home
            loaded = await self._load_pages(project, name, first)
            self._homes.pop(key, None)
            if _weigh_home(loaded.home) <= self._homes.maxsize:
                self._homes[key] = loaded
            else:
                log.warning("home_not_cached", project=project, home=name, devices=len(loaded.home.devices))
            return loaded.home

    async def _load_pages(self, project: str, name: str, first: HomeLoaded) -> _Cached:
        """Load the rest of a home, again from the first page if it changes meanwhile."""
        for _ in range(_ATTEMPTS):
            devices, page = list(first.devices), first
            while page.next is not None and page.revision == first.revision:
                page = await self._load_page(project, name, None, page.next)
                devices += page.devices
            if page.revision == first.revision:
                return _Cached(await asyncio.to_thread(_build_home, name, devices), first.revision)
            first = await self._load_page(project, name, None)
        raise RequestError(ErrorCode.CONFLICT, f"The home {name} changes too often to be loaded: try again")

    async def _load_page(self, project: str, name: str, known: int | None, after: str | None = None) -> HomeLoaded:
        request = LoadHome(project=project, home=name, known=known, after=after)
        return await self._caller.call(LOAD_HOME, request, allow_local=True)


def _weigh_home(home: Home) -> int:
    return sum(1 + len(device.aliases) // 5 for device in home.devices)


def _build_home(name: str, devices: list[Device]) -> Home:
    """Index a home in a thread, similar names included: with 10,000 devices that takes a quarter of a second."""
    home = Home(name, devices)
    home.prepare()
    return home
