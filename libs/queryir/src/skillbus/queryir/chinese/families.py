"""Families of device types: what a verb or a bare value means for them."""

from collections.abc import Mapping, Sequence
from typing import Final

from skillbus.queryir.actions import ActionCode
from skillbus.queryir.home import Home
from skillbus.queryir.writing import fold_name

GENERIC_VERBS: Final = frozenset({"on", "off", "start", "activate", "watch", "query", "work", "faster"})
"""Verbs that give way to another in the same clause: 开始打扫 is 打扫."""

_FAMILY_TYPES: Final[Mapping[str, str]] = {
    "cover": (
        "cover curtain shade blind shutter window garage garage_door door gate valve window_covering "
        "window_shade sprinkler irrigation"
    ),
    "retractable": "awning clothes_rack drying_rack screen projector_screen",
    "lock": "lock door_lock smart_lock",
    "scene": "scene script automation button routine",
    "machine": ("vacuum washer washing_machine dryer dishwasher lawn_mower feeder robot_vacuum robot_cleaner printer"),
    "light": "light lamp bulb led",
    "fan": "fan hood range_hood air_purifier purifier ventilator",
    "media": "media_player tv television speaker projector set_top_box soundbar receiver siren alarm doorbell",
    "climate": (
        "climate air_conditioner ac thermostat heater heating radiator water_heater fridge refrigerator oven freezer "
        "kettle boiler"
    ),
    "sensor": "sensor weather person",
    "humidity": "humidifier dehumidifier",
}
_FAMILIES: Final = {kind: family for family, kinds in _FAMILY_TYPES.items() for kind in kinds.split()}

_DEFAULT_PROPERTIES: Final[Mapping[str, str]] = {
    "light": "brightness",
    "cover": "position",
    "retractable": "position",
    "fan": "speed",
    "media": "volume",
    "climate": "temperature",
    "humidity": "humidity",
}

_SWITCHED: Final[Mapping[tuple[str, str], ActionCode]] = {
    ("on", "cover"): ActionCode.OPEN,
    ("off", "cover"): ActionCode.CLOSE,
    ("on", "lock"): ActionCode.UNLOCK,
    ("off", "lock"): ActionCode.LOCK,
    ("open", "lock"): ActionCode.UNLOCK,
    ("close", "lock"): ActionCode.LOCK,
    ("on", "scene"): ActionCode.ACTIVATE,
    ("start", "scene"): ActionCode.ACTIVATE,
    ("play", "scene"): ActionCode.ACTIVATE,
    ("set", "scene"): ActionCode.ACTIVATE,
    ("start", "light"): ActionCode.TURN_ON,
    ("start", "fan"): ActionCode.TURN_ON,
    ("start", "climate"): ActionCode.TURN_ON,
    ("start", "media"): ActionCode.TURN_ON,
    ("start", "humidity"): ActionCode.TURN_ON,
    ("activate", "machine"): ActionCode.START,
    ("activate", "light"): ActionCode.TURN_ON,
    ("activate", "fan"): ActionCode.TURN_ON,
    ("activate", "climate"): ActionCode.TURN_ON,
    ("activate", "media"): ActionCode.TURN_ON,
    ("on", "retractable"): ActionCode.OPEN,
    ("off", "retractable"): ActionCode.CLOSE,
    ("raise", "retractable"): ActionCode.CLOSE,
    ("retract", "retractable"): ActionCode.CLOSE,
    ("lower", "retractable"): ActionCode.OPEN,
    ("up", "retractable"): ActionCode.CLOSE,
    ("down", "retractable"): ActionCode.OPEN,
    ("up", "cover"): ActionCode.OPEN,
    ("down", "cover"): ActionCode.CLOSE,
    ("stop", "scene"): ActionCode.TURN_OFF,
    ("stop", "light"): ActionCode.TURN_OFF,
    ("stop", "fan"): ActionCode.TURN_OFF,
    ("stop", "climate"): ActionCode.TURN_OFF,
    ("stop", "humidity"): ActionCode.TURN_OFF,
    ("pause", "cover"): ActionCode.STOP,
    ("stop", "media"): ActionCode.STOP,
}
_VERBS: Final[Mapping[str, ActionCode]] = {
    "on": ActionCode.TURN_ON,
    "off": ActionCode.TURN_OFF,
    "watch": ActionCode.TURN_ON,
    "clean": ActionCode.START,
    "wash": ActionCode.START,
    "maybe_dock": ActionCode.DOCK,
    "work": ActionCode.START,
    "raise": ActionCode.OPEN,
    "retract": ActionCode.OPEN,
    "extend": ActionCode.OPEN,
    "lower": ActionCode.CLOSE,
    "open": ActionCode.OPEN,
    "close": ActionCode.CLOSE,
}
VERB_TYPES: Final[Mapping[str, str]] = {"lock": "lock", "unlock": "lock", "clean": "vacuum", "wash": "washer"}
"""Type of the devices that a verb is about, where the sentence names none."""


def get_family(kind: str | None) -> str:
    """Return the family of a device type; empty for a type of none."""
    return _FAMILIES.get(kind or "", "")


def get_default_property(family: str) -> str:
    """Return the property that a bare value sets."""
    return _DEFAULT_PROPERTIES.get(family, "brightness")


def get_verb_action(verb: str, family: str) -> ActionCode | None:
    """Return the action of a verb for devices of a family. None for a verb that only sets something."""
    if (verb, family) in _SWITCHED:
        return _SWITCHED[verb, family]
    if verb in _VERBS:
        return _VERBS[verb]
    return ActionCode(verb) if verb in set(ActionCode) else None


def is_retractable(words: str) -> bool:
    """Return True for a device that is in use when it is down or out: an awning, a clothes rack, a screen."""
    return any(
        part in words for part in ("棚", "雨篷", "遮阳篷", "遮阳伞", "晾衣", "晒衣", "幕布", "投影幕", "布幕", "天幕")
    )


_WIDE: Final = frozenset({"cover", "climate", "media_player", "fan", "switch", "lock"})


def choose_type(
    types: Sequence[str], home: Home | None, rooms: Sequence[str] = (), *, locks: bool = False
) -> str | None:
    """Return the type that a word means: one that the rooms have, else one that the home has, else the most usual.

    A narrow type comes before a wide one, such as `window` before `cover`. A word that may mean a lock does so in a
    sentence that locks.
    """
    if locks and "lock" in types:
        return "lock"
    if home is not None and len(types) > 1:
        there = {device.type for room in rooms for device in home.by_room.get(fold_name(room), ())}
        for known in (there, home.by_type):
            found = sorted((kind for kind in types if kind in known), key=lambda kind: kind in _WIDE)
            if found:
                return found[0]
    return types[0] if types else None
