"""Home of a speaker: its devices, indexed by the names, rooms and types that a sentence may use."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType

from skillbus.contracts.indexer.devices import Device
from skillbus.queryir.similarity import SimilarNames
from skillbus.queryir.writing import fold_name, is_inside_word


class NameKind(StrEnum):
    """Kind of a name in a home. A device's own name comes before an alias."""

    NAME = "name"
    ALIAS = "alias"
    ROOM = "room"


@dataclass(frozen=True, slots=True)
class NameMatch:
    """Name of a device or room in a folded text."""

    start: int
    end: int
    kind: NameKind
    spelling: str
    """Spelling of the home."""
    devices: tuple[Device, ...]
    """Devices of that name, or in that room."""


class Home:
    """Devices of a home, indexed once for each revision of it and read by many sentences.

    All keys are folded (`skillbus.queryir.writing.fold_name`).
    """

    def __init__(self, name: str, devices: Sequence[Device]) -> None:
        """Index the devices."""
        self.name = name
        self.devices = tuple(devices)
        self.by_id: Mapping[str, Device] = MappingProxyType({device.id: device for device in self.devices})
        spellings: dict[NameKind, dict[str, str]] = {kind: {} for kind in NameKind}
        groups: dict[NameKind, dict[str, list[Device]]] = {kind: {} for kind in NameKind}
        types: dict[str, list[Device]] = {}
        for device in self.devices:
            types.setdefault(device.type, []).append(device)
            for kind, spelling in _list_names(device):
                folded = fold_name(spelling)
                if folded:
                    spellings[kind].setdefault(folded, spelling)
                    group = groups[kind].setdefault(folded, [])
                    if not group or group[-1] is not device:
                        group.append(device)
        self._spellings = spellings
        self._groups = {kind: _freeze(group) for kind, group in groups.items()}
        self.by_type = _freeze(types)
        self._lengths = _measure_names(name for group in groups.values() for name in group)

    @property
    def by_name(self) -> Mapping[str, tuple[Device, ...]]:
        """Devices by their folded name."""
        return self._groups[NameKind.NAME]

    @property
    def by_alias(self) -> Mapping[str, tuple[Device, ...]]:
        """Devices by each folded alias."""
        return self._groups[NameKind.ALIAS]

    @property
    def by_room(self) -> Mapping[str, tuple[Device, ...]]:
        """Devices by their folded room."""
        return self._groups[NameKind.ROOM]

    @property
    def rooms(self) -> Mapping[str, str]:
        """Spelling of each room by its folded name."""
        return self._spellings[NameKind.ROOM]

    @cached_property
    def similar_names(self) -> SimilarNames:
        """Index of the names and aliases of devices by sound and length."""
        return SimilarNames(dict.fromkeys((*self.by_name, *self.by_alias)))

    @cached_property
    def similar_rooms(self) -> SimilarNames:
        """Index of the rooms by sound and length."""
        return SimilarNames(self.by_room)

    @cached_property
    def by_capability(self) -> Mapping[str, tuple[Device, ...]]:
        """Devices by each of their capabilities, in lower case."""
        groups: dict[str, list[Device]] = {}
        for device in self.devices:
            for capability in device.capabilities:
                groups.setdefault(capability.lower(), []).append(device)
        return _freeze(groups)

    @cached_property
    def _all_names(self) -> str:
        return "\n".join((*self.by_name, *self.by_alias))

    def has_name_with(self, part: str) -> bool:
        """Return True if a device's name or alias contains a folded text."""
        return part in self._all_names

    def prepare(self) -> None:
        """Build the indexes that are otherwise built by the first sentence that needs them."""
        _ = (self.similar_names, self.similar_rooms, self.by_capability, self._all_names)

    def match_names(self, text: str, start: int) -> Iterator[NameMatch]:
        """Yield the names of devices and rooms that a folded text has at a position, longest first.

        A name of Latin letters or digits is a whole word. Of one spelling, the device's name comes before an alias, and
        both before a room.
        """
        if is_inside_word(text, start):
            return
        for length in self._lengths.get(text[start : start + 1], ()):
            end = start + length
            if end > len(text) or is_inside_word(text, end):
                continue
            word = text[start:end]
            for kind in NameKind:
                if devices := self._groups[kind].get(word):
                    yield NameMatch(start, end, kind, self._spellings[kind][word], devices)


def _list_names(device: Device) -> Iterator[tuple[NameKind, str]]:
    yield NameKind.NAME, device.name
    for alias in device.aliases:
        yield NameKind.ALIAS, alias
    if device.room is not None:
        yield NameKind.ROOM, device.room


def _freeze(groups: Mapping[str, Sequence[Device]]) -> Mapping[str, tuple[Device, ...]]:
    return MappingProxyType({key: tuple(devices) for key, devices in groups.items()})


def _measure_names(names: Iterator[str]) -> dict[str, tuple[int, ...]]:
    """Return the lengths of the names that begin with each character, longest first."""
    lengths: dict[str, set[int]] = {}
    for name in names:
        lengths.setdefault(name[0], set()).add(len(name))
    return {first: tuple(sorted(found, reverse=True)) for first, found in lengths.items()}
