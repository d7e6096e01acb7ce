"""Homes are loaded page by page, kept while they do not change, and bounded in number of devices."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from skillbus.common.bus.caller import Caller
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.devices import LOAD_HOME, Device, HomeLoaded, LoadHome
from skillbus.contracts.message import Message
from skillbus.retriever.adapters.bus_homes import BusHomes


def _devices(*keys: str) -> tuple[Device, ...]:
    return tuple(Device(home="home", id=key, name=f"lamp {key}", type="light") for key in keys)


@dataclass
class _Indexer(Caller):
    """A caller that answers as the indexer does, one device a page."""

    homes: dict[str, tuple[int, Sequence[Device]]] = field(default_factory=dict)
    changes: list[tuple[int, Sequence[Device]]] = field(default_factory=list)
    """States of the home "home" that follow each further page."""
    pages: int = 0

    async def call(self, endpoint: Endpoint[Message, Message], request: Message, **_: object) -> HomeLoaded:  # type: ignore[override]
        assert endpoint is LOAD_HOME
        assert isinstance(request, LoadHome)
        if request.home not in self.homes:
            raise RequestError(ErrorCode.NOT_FOUND, "There is no such home.")
        revision, devices = self.homes[request.home]
        if request.known == revision:
            return HomeLoaded(revision=revision, unchanged=True)
        self.pages += 1
        if request.after is not None and self.changes:
            self.homes["home"] = revision, devices = self.changes.pop(0)
        at = int(request.after or 0)
        following = str(at + 1) if at + 1 < len(devices) else None
        return HomeLoaded(revision=revision, devices=tuple(devices[at : at + 1]), next=following)


async def _load(homes: BusHomes, name: str = "home") -> list[str]:
    return [device.id for device in (await homes.load_home("default", name)).devices]


async def test_all_pages_are_loaded_once_while_the_home_does_not_change() -> None:
    indexer = _Indexer(homes={"home": (7, _devices("a", "b", "c"))})
    homes = BusHomes(indexer, 100)
    first = await homes.load_home("default", "home")
    assert [device.id for device in first.devices] == ["a", "b", "c"]
    assert await homes.load_home("default", "home") is first
    assert indexer.pages == 3
    indexer.homes["home"] = (8, _devices("a"))
    assert await _load(homes) == ["a"]


async def test_a_home_that_changes_between_two_pages_is_loaded_again() -> None:
    indexer = _Indexer(homes={"home": (1, _devices("a", "b"))}, changes=[(2, _devices("c", "d", "e"))])
    assert await _load(BusHomes(indexer, 100)) == ["c", "d", "e"]


async def test_a_home_that_always_changes_is_a_conflict() -> None:
    changes: list[tuple[int, Sequence[Device]]] = [(revision, _devices("a", "b")) for revision in range(2, 20)]
    with pytest.raises(RequestError) as raised:
        await _load(BusHomes(_Indexer(homes={"home": (1, _devices("a", "b"))}, changes=changes), 100))
    assert raised.value.code is ErrorCode.CONFLICT


async def test_the_homes_used_last_are_kept_within_the_bound_of_devices() -> None:
    indexer = _Indexer(homes={name: (1, _devices("a", "b")) for name in ("one", "two", "home")})
    indexer.homes["large"] = (1, _devices(*"abcdefgh"))
    homes = BusHomes(indexer, 4)
    for name in ("one", "two", "one", "home"):  # "two" makes room
        await _load(homes, name)
    loaded = indexer.pages
    await _load(homes, "one")
    assert indexer.pages == loaded
    await _load(homes, "two")
    assert indexer.pages == loaded + 2
    assert len(await _load(homes, "large")) == len(await _load(homes, "large")) == 8


async def test_a_home_that_vanished_is_forgotten() -> None:
    indexer = _Indexer(homes={"home": (1, _devices("a"))})
    homes = BusHomes(indexer, 100)
    await _load(homes)
    del indexer.homes["home"]
    with pytest.raises(RequestError) as raised:
        await _load(homes)
    assert raised.value.code is ErrorCode.NOT_FOUND
    indexer.homes["home"] = (1, _devices("b"))
    assert await _load(homes) == ["b"]


async def test_devices_with_many_aliases_count_for_several() -> None:
    aliases = tuple(f"alias {number}" for number in range(50))
    named = tuple(device.model_copy(update={"aliases": aliases}) for device in _devices("a"))
    indexer = _Indexer(homes={"home": (1, named)})
    homes = BusHomes(indexer, 10)
    await _load(homes)
    await _load(homes)
    assert indexer.pages == 2  # too large to be kept
