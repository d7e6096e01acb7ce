"""Devices that a command means: scope first, then the name, then type and room.

Only indexes of the home are read, so that the time depends on the devices that are meant and not on all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from skillbus.contracts.indexer.devices import Device
from skillbus.contracts.retriever.command_resolution import RecallReason
from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.queryir.chinese.lexicon import load_lexicon
from skillbus.queryir.device_types import find_type, select_type
from skillbus.queryir.home import Home
from skillbus.queryir.writing import fold_name, is_han

_CONFIDENCE: Final[Mapping[RecallReason, float]] = {
    RecallReason.NAME_HIT: 1.0,
    RecallReason.ALIAS_HIT: 1.0,
    RecallReason.REFERENCE_HIT: 0.95,
    RecallReason.TYPE_HIT: 0.95,
    RecallReason.ROOM_HIT: 0.9,
    RecallReason.FUZZY_HIT: 0.7,
    RecallReason.SIMILAR_HIT: 0.3,
}
"""Confidence of a device by the strongest of its reasons."""
_NEAR_TYPE: Final = 0.8
"""Factor for a device of a near type."""


class RecallGap(StrEnum):
    """Reason why a command cannot be matched with the home: the speaker must be asked."""

    NO_TARGET = "no_target"
    """The sentence names no device, room, type or quantifier."""
    NOTHING_MENTIONED = "nothing_mentioned"
    """The reference stands for no device of this home."""
    UNKNOWN_EXCLUSION = "unknown_exclusion"
    """The sentence leaves out what the home does not have. Without the exclusion it would reach too many devices."""


@dataclass(frozen=True, slots=True)
class DeviceMatch:
    """Device that the command means."""

    device: Device
    reasons: tuple[RecallReason, ...]
    confidence: float
    near_type: bool = False
    """True if it has not the type that the sentence names, but one that may mean the same."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Devices that a command means, in the order of the home."""

    matches: tuple[DeviceMatch, ...] = ()
    gap: RecallGap | None = None
    unknown: tuple[str, ...] = ()
    """Words of the gap."""


def recall_devices(query: QueryIR, home: Home, last_mentioned: Sequence[str] = ()) -> Recall:
    """Return the devices that a command means.

    `last_mentioned` are ids; those that the home lacks are ignored. The quantifiers `one`, `some` and `count` leave a
    choice: all devices to choose from are returned.
    """
    scope = _read_scope(query, home)
    if scope.unknown:
        return Recall(gap=RecallGap.UNKNOWN_EXCLUSION, unknown=scope.unknown)
    found: list[DeviceMatch] = []
    if query.references:
        found += _recall_mentioned(query, home, last_mentioned, scope)
        if not found and not query.name_hint:
            return Recall(gap=RecallGap.NOTHING_MENTIONED)
    if query.name_hint:
        found += _recall_named(query.name_hint, query.type_hint, home, scope)
    elif not query.references:
        if not (query.type_hint or query.scope_include or query.scope_exclude or query.quantifier):
            return Recall(gap=RecallGap.NO_TARGET)
        found = _recall_group(query.type_hint, home, scope)
    unique = {match.device.id: match for match in reversed(found)}
    return Recall(tuple(reversed(unique.values())))


def match_similar(query: QueryIR, home: Home, ids: Iterable[str]) -> tuple[DeviceMatch, ...]:
    """Return devices whose names have a similar meaning, as candidates, if they are in the scope of the command."""
    scope = _read_scope(query, home)
    devices = scope.filter(home.by_id[key] for key in ids if key in home.by_id)
    return tuple(_make_match(device, (RecallReason.SIMILAR_HIT,), scope) for device in devices)


@dataclass(frozen=True, slots=True)
class _Scope:
    """Rooms and devices that the sentence allows."""

    rooms: tuple[str, ...]
    """Folded rooms of the home."""
    limited: bool
    """True if the sentence names rooms, even if the home has none of them."""
    excluded: AbstractSet[str]
    """Ids of devices."""
    unknown: tuple[str, ...]
    """Excluded words that the home does not know."""

    def filter(self, devices: Iterable[Device]) -> list[Device]:
        """Return the devices that are in the scope."""
        return [device for device in devices if self.has(device)]

    def has(self, device: Device) -> bool:
        """Return True if a device is in the scope."""
        if device.id in self.excluded:
            return False
        return not self.limited or (device.room is not None and fold_name(device.room) in self.rooms)


def _read_scope(query: QueryIR, home: Home) -> _Scope:
    rooms: list[str] = []
    for word in query.scope_include:
        rooms += _find_rooms(fold_name(word), home)
    excluded: set[str] = set()
    unknown: list[str] = []
    for word in query.scope_exclude:
        devices = _find_excluded(fold_name(word), home)
        if devices is None:
            unknown.append(word)
        else:
            excluded.update(device.id for device in devices)
    return _Scope(tuple(dict.fromkeys(rooms)), bool(query.scope_include), excluded, tuple(unknown))


def _find_rooms(word: str, home: Home) -> tuple[str, ...]:
    """Return the rooms of a folded name: the one with it, those of its kind, or those that sound like it or differ in
    one character."""
    if word in home.by_room:
        return (word,)
    if kinds := _find_kinds(word, home):
        return kinds
    names = home.similar_rooms
    return names.find_same_sound(word) or names.find_one_error(word)


def _find_kinds(word: str, home: Home) -> tuple[str, ...]:
    """Return the rooms of a kind: 主卧 and 次卧 for 卧室, Guest Bedroom for `bedroom`, 一号教室 for 教室."""
    narrower = load_lexicon().narrower_rooms.get(word, ())
    end = word if len(word) > 1 and is_han(word[0]) else f" {word}"
    return tuple(room for room in home.by_room if room in narrower or room.endswith(end))


def _find_excluded(word: str, home: Home) -> Sequence[Device] | None:
    """Return the devices that an excluded word means: of a room, name or type. None if the home knows no such word."""
    for index in (home.by_room, home.by_name, home.by_alias):
        if devices := index.get(word):
            return devices
    if kind := find_type(word, home):
        return select_type(kind, home.devices, home).devices
    if rooms := _find_rooms(word, home):
        return [device for room in rooms for device in home.by_room[room]]
    return _find_similar(word, home) or None


def _recall_mentioned(query: QueryIR, home: Home, last_mentioned: Sequence[str], scope: _Scope) -> list[DeviceMatch]:
    mentioned = [home.by_id[key] for key in dict.fromkeys(last_mentioned) if key in home.by_id]
    reasons: tuple[RecallReason, ...] = (RecallReason.REFERENCE_HIT,)
    if query.type_hint and not query.name_hint:
        mentioned = list(select_type(query.type_hint, mentioned, home).devices)
        reasons += (RecallReason.TYPE_HIT,)
    return [_make_match(device, reasons, scope) for device in scope.filter(mentioned)]


def _recall_named(hint: str, kind: str | None, home: Home, scope: _Scope) -> list[DeviceMatch]:
    """Return the devices of a name in the scope: exact names first, then aliases, then similar names.

    A room that stands before the name may be a part of it: a light may be called 卧室主灯.
    """
    names = (fold_name(hint), *(fold_name(f"{room} {hint}") for room in scope.rooms))
    for reason, index in ((RecallReason.NAME_HIT, home.by_name), (RecallReason.ALIAS_HIT, home.by_alias)):
        for name in names:
            if found := _prefer_type(kind, scope.filter(index.get(name, ())), home):
                return [_make_match(device, (reason,), scope) for device in found]
    for name in names:
        if similar := _prefer_type(kind, scope.filter(_find_similar(name, home)), home):
            return [_make_match(device, (RecallReason.FUZZY_HIT,), scope) for device in similar]
    return []


def _prefer_type(kind: str | None, devices: list[Device], home: Home) -> Sequence[Device]:
    """Return the devices of a type if there are any, all otherwise: a name says more than a type."""
    return (select_type(kind, devices, home).devices if kind else ()) or devices


def _find_similar(name: str, home: Home) -> list[Device]:
    """Return the devices with a name or alias that sounds like this one; else those with one character wrong."""
    names = home.similar_names
    similar = names.find_same_sound(name) or names.find_one_error(name)
    found = [device for other in similar for index in (home.by_name, home.by_alias) for device in index.get(other, ())]
    return list({device.id: device for device in found}.values())


def _recall_group(kind: str | None, home: Home, scope: _Scope) -> list[DeviceMatch]:
    """Return the devices of a type, of rooms, of both, or all devices, without those that are excluded."""
    devices: Sequence[Device] = home.devices
    reasons: tuple[RecallReason, ...] = ()
    if scope.limited:
        devices = [device for room in scope.rooms for device in home.by_room[room]]
        reasons += (RecallReason.ROOM_HIT,)
    near = False
    if kind:
        typed = select_type(kind, devices, home)
        devices, near = typed.devices, typed.near
        reasons += (RecallReason.TYPE_HIT,)
    confidence = max((_CONFIDENCE[reason] for reason in reasons), default=_CONFIDENCE[RecallReason.ROOM_HIT])
    confidence *= _NEAR_TYPE if near else 1.0
    return [DeviceMatch(device, reasons, confidence, near) for device in devices if device.id not in scope.excluded]


def _make_match(device: Device, reasons: tuple[RecallReason, ...], scope: _Scope) -> DeviceMatch:
    confidence = max(_CONFIDENCE[reason] for reason in reasons)
    return DeviceMatch(device, (*reasons, RecallReason.ROOM_HIT) if scope.limited else reasons, confidence)
