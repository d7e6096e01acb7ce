"""Devices of homes: put, remove, list and load them."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from skillbus.common.paging import cut_page
from skillbus.contracts.indexer.devices import (
    DevicePut,
    DevicesListed,
    DevicesPut,
    DevicesRemoved,
    HomeLoaded,
    HomesListed,
    HomeSummary,
    ListDevices,
    ListHomes,
    LoadHome,
    PutDevices,
    RemoveDevices,
)
from skillbus.indexer.domain.errors import HomeMissingError
from skillbus.indexer.domain.home.device import (
    DeviceRecord,
    ListedDevice,
    make_device_key_id,
    parse_device,
    split_device_key_id,
)
from skillbus.indexer.domain.record.ports import ListedRecords
from skillbus.indexer.domain.record.registry import PlainRegistry
from skillbus.indexer.domain.record.values import read_id, read_text

_PAGE_DEVICES: Final = 500
_LISTED_HOMES: Final = 1_000
ItemT = TypeVar("ItemT")


class HomeRevisions(Protocol):
    """Revisions of homes. Methods raise RequestError when they are unavailable."""

    async def find_revision(self, project: str, home: str) -> int:
        """Return the revision of the last change of a device of the home, removals included."""


def cut_listed(
    found: Sequence[ItemT], limit: int, measure: Callable[[ItemT], int], get_mark: Callable[[ItemT], str]
) -> tuple[Sequence[ItemT], str | None]:
    """Return the first of these things that fit a message, and the mark of the next page; None at the end."""
    page = cut_page(found[:limit], measure)
    return page, get_mark(page[-1]) if len(found) > len(page) else None


@dataclass(frozen=True, slots=True)
class Homes:
    """Answers requests about devices. Methods raise RequestError when the records are unavailable."""

    registry: PlainRegistry[DeviceRecord]
    listed: ListedRecords[ListedDevice]
    revisions: HomeRevisions

    async def put_devices(self, request: PutDevices) -> DevicesPut:
        """Take devices, each by itself. An unchanged one is neither written nor embedded again."""
        parse = partial(parse_device, request.project, request.home)
        puts, indexed = await self.registry.put(request.project, request.devices, parse)
        results = list[DevicePut]()
        for put, value in zip(puts, request.devices, strict=True):
            named = read_text(value, "home") or request.home, read_id(value)
            home, device_id = split_device_key_id(put.key[1]) if put.key else named
            results.append(DevicePut(home=home, id=device_id, outcome=put.outcome, error=put.error))
        return DevicesPut(results=tuple(results), indexed=indexed)

    async def remove_devices(self, request: RemoveDevices) -> DevicesRemoved:
        """Remove devices by id, or all of a home. Return the ids of those that existed."""
        ids = request.ids or [device.id for device in await self._list_home(request.project, request.home)]
        keys = [(request.project, make_device_key_id(request.home, device_id)) for device_id in ids]
        removed = await self.registry.remove(request.project, keys)
        return DevicesRemoved(ids=tuple(split_device_key_id(key_id)[1] for _, key_id in removed))

    async def list_devices(self, request: ListDevices) -> DevicesListed:
        """Return a page of devices, shorter than its limit if it would not fit a message.

        A filter by text reads all devices for each page: some 0.1 s for ten thousand.
        """
        found = [device for device in await self.listed.list_project(request.project) if device.matches(request)]
        rest = found if request.after is None else _skip_to(found, split_device_key_id(request.after))
        page, mark = _cut(rest, request.limit)
        return DevicesListed(devices=tuple(device.to_device() for device in page), total=len(found), next=mark)

    async def list_homes(self, request: ListHomes) -> HomesListed:
        """Return the homes of a project by name."""
        homes = defaultdict[str, list[ListedDevice]](list)
        for device in await self.listed.list_project(request.project):
            homes[device.home].append(device)
        summaries = [
            HomeSummary(home=home, devices=len(devices), rooms=len({device.room for device in devices} - {None}))
            for home, devices in list(homes.items())[:_LISTED_HOMES]
        ]
        return HomesListed(homes=tuple(summaries), total=len(homes))

    async def load_home(self, request: LoadHome) -> HomeLoaded:
        """Return a page of the devices of a home, ordered by id. Raises HomeMissingError.

        The revision is read before the devices: a change in between gives the caller new devices with an old revision,
        and the caller asks again.
        """
        revision = await self.revisions.find_revision(request.project, request.home)
        if not revision:
            raise HomeMissingError(request.project, request.home)
        if request.known == revision:
            return HomeLoaded(revision=revision, unchanged=True)
        devices = await self._list_home(request.project, request.home)
        if not devices:
            raise HomeMissingError(request.project, request.home)
        rest = devices if request.after is None else _skip_to(devices, (request.home, request.after))
        page, mark = _cut(rest, _PAGE_DEVICES)
        following = None if mark is None else split_device_key_id(mark)[1]
        return HomeLoaded(revision=revision, devices=tuple(device.to_device() for device in page), next=following)

    async def _list_home(self, project: str, home: str) -> Sequence[ListedDevice]:
        """Return the devices of a home, ordered by id."""
        devices = await self.listed.list_project(project)
        start = bisect_right(devices, (home, ""), key=_order)
        end = start
        while end < len(devices) and devices[end].home == home:
            end += 1
        return devices[start:end]


def _order(device: ListedDevice) -> tuple[str, str]:
    return device.home, device.id


def _skip_to(devices: Sequence[ListedDevice], after: tuple[str, str]) -> Sequence[ListedDevice]:
    return devices[bisect_right(devices, after, key=_order) :]


def _cut(devices: Sequence[ListedDevice], limit: int) -> tuple[Sequence[ListedDevice], str | None]:
    return cut_listed(devices, limit, lambda device: len(device.content), lambda device: device.key[1])
