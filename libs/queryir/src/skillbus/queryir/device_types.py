"""Relations between types of devices: words for the same things, and wider types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.indexer.devices import Device
from skillbus.queryir.chinese.families import choose_type
from skillbus.queryir.chinese.lexicon import load_lexicon
from skillbus.queryir.english.lexicon.phrases import find_singular
from skillbus.queryir.english.lexicon.types import TYPE_WORDS
from skillbus.queryir.home import Home
from skillbus.queryir.writing import is_han

SAME_TYPES: Final = (
    ("light", "lamp", "bulb", "led_strip", "dimmer"),
    ("cover", "curtain", "blind", "shade", "shutter", "awning", "window_shade"),
    ("garage_door", "garage"),
    ("vacuum", "robot_vacuum", "robot_cleaner"),
    ("fan", "ceiling_fan"),
    ("lock", "door_lock", "smart_lock"),
    ("valve", "water_valve", "gas_valve"),
    ("outlet", "plug", "socket"),
    ("fridge", "refrigerator"),
    ("washer", "washing_machine"),
)
"""Types that homes give to the same things: a command about one means all of them."""
WIDER_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("tv", "speaker", "receiver", "projector", "set_top_box"), "media_player"),
    **dict.fromkeys(("air_conditioner", "thermostat"), "climate"),
    **dict.fromkeys(("outlet", "plug", "socket"), "switch"),
}
"""Wider type of a type. A home that lacks one of them may call its devices by the other."""
_SAME: Final = {kind: kinds for kinds in SAME_TYPES for kind in kinds}
_SENSOR_ENDS: Final = ("sensor", "detector", "measurement", "alert")


@dataclass(frozen=True, slots=True)
class TypedDevices:
    """Devices of a type."""

    devices: Sequence[Device]
    near: bool = False
    """True if they have another type that may mean the same: a guess."""


def select_type(kind: str, devices: Sequence[Device], home: Home) -> TypedDevices:
    """Return the devices of a type among these, with those of types for the same things.

    Without any, sensors with a capability that is called after the type; then devices of the wider type or of the
    narrower ones.
    """
    if found := _keep_types(_SAME.get(kind, (kind,)), devices, home):
        return TypedDevices(found)
    if found := _find_sensors(kind, devices, home):
        return TypedDevices(found)
    near = [WIDER_TYPES[kind]] if kind in WIDER_TYPES else [one for one, wide in WIDER_TYPES.items() if wide == kind]
    return TypedDevices(_keep_types(near, devices, home), near=True)


def find_type(word: str, home: Home) -> str | None:
    """Return the type that a folded word names, in Chinese or English; None if it names none."""
    if any(map(is_han, word)):
        return choose_type(load_lexicon().list_types(word), home)
    words = [find_singular(each) for each in word.split()]
    own = "_".join(words)
    return own if own in home.by_type else TYPE_WORDS.get(words)


def _keep_types(kinds: Sequence[str], devices: Sequence[Device], home: Home) -> Sequence[Device]:
    if devices is home.devices:
        groups = [group for kind in kinds if (group := home.by_type.get(kind))]
        if len(groups) < 2:
            return groups[0] if groups else ()
    return [device for device in devices if device.type in kinds]


def _find_sensors(kind: str, devices: Sequence[Device], home: Home) -> Sequence[Device]:
    """Return the devices that measure what a class of sensors is called after: `carbon_monoxide` and
    `carbonMonoxideDetector`."""
    word = kind.replace("_", "").replace("-", "")
    ids = {
        device.id
        for capability, group in home.by_capability.items()
        if (word in capability and capability.endswith(_SENSOR_ENDS)) or word == capability == "battery"
        for device in group
    }
    return [device for device in devices if device.id in ids] if ids else ()
