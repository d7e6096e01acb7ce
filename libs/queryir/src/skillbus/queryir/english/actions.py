"""Decides which action a command means: by its verb, particle and values, and by what it is about."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from skillbus.queryir.english.lexicon.actions import ATTRIBUTE_ACTIONS, FAMILY_ATTRIBUTES, STEPS
from skillbus.queryir.english.lexicon.phrases import read_words
from skillbus.queryir.english.words.items import EnglishRole, Item
from skillbus.queryir.english.words.values import Value, ValueKind

_DIRECT: Final = read_words(
    """
    toggle lock unlock pause play next previous mute unmute rewind fast_forward locate arm disarm
    reset refresh ring activate dock
    """
)
_SETTABLE: Final = frozenset(
    {ValueKind.PERCENT, ValueKind.DEGREES, ValueKind.KELVIN, ValueKind.NUMBER, ValueKind.HIGHEST, ValueKind.LOWEST}
    | {ValueKind.COLOUR, ValueKind.MODE, ValueKind.CHANNEL}
)
_OPENING: Final = frozenset({"cover", "valve", "lock", None})
_PLAYING: Final = frozenset({"play", "pause", "next", "previous", "stop", "mute", "unmute", "rewind", "fast_forward"})
_MOVING: Final = read_words("bring pull take roll wind reel put let draw push get crank fold slide")
"""Verbs that move an awning or a screen in or out."""
_PLACED: Final = frozenset({"up", "down", "open", "close"})
"""Particles that say themselves what becomes of a cover."""
_UP: Final = frozenset({"raise", "brighten", "heat"})
_DOWN: Final = frozenset({"lower", "dim", "cool"})
_SWITCHED: Final = frozenset({"light", "fan", "climate", "switch", "outlet", "humidity"})
_SPEEDS: Final = frozenset({"low", "medium", "high"})
_MACHINES: Final = frozenset({"vacuum", "appliance", "media", "scene", None})
_SWITCHING: Final = frozenset({"turn_on", "turn_off", "open", "close"})
_ATTRIBUTE_VERBS: Final = {"brighten": "brightness", "dim": "brightness", "heat": "temperature", "cool": "temperature"}


@dataclass(slots=True)
class Predicate:
    """Verb, particle and values of a clause."""

    verb: str = ""
    text: str = ""
    """The verb as it was said."""
    particle: str = ""
    step: str = ""
    attribute: str | None = None
    media: bool = False
    base: bool = False
    way: str = ""
    """`in` or `out` at the end: `bring the awning in`."""
    values: list[Value] = field(default_factory=list)
    numbers_device: bool = False
    """True if a bare number tells the device from others, or the hour: `turn off light 3`, `turn it off at 7`."""

    @property
    def is_empty(self) -> bool:
        """Return True if it says nothing."""
        return not (self.verb or self.particle or self.step or self.attribute or self.values)

    def get_value(self) -> Value | None:
        """Return the value to set, if there is one."""
        found = [value for value in self.values if value.kind in _SETTABLE]
        return next((value for value in found if value.kind is not ValueKind.MODE), found[0] if found else None)

    def get_direction(self) -> int:
        """Return 1 for more, -1 for less, 0 if it does not say."""
        if self.step:
            return STEPS[self.step][1]
        if self.verb in _UP or self.particle == "up":
            return 1
        return -1 if self.verb in _DOWN or self.particle == "down" else 0


def read_predicate(items: Sequence[Item]) -> Predicate:
    """Read verb, particle and values of a clause."""
    predicate = Predicate()
    for index, item in enumerate(items):
        match item.role:
            case EnglishRole.VERB if not predicate.verb or predicate.verb == "set":
                predicate.verb, predicate.text = item.meaning, item.text
            case EnglishRole.KEEPER if not predicate.verb:
                predicate.verb, predicate.text = "set", item.text
            case EnglishRole.PARTICLE if not _is_preposition(items, index):
                predicate.particle = item.meaning
            case EnglishRole.STEP:
                predicate.step = item.meaning
            case EnglishRole.ATTRIBUTE:
                predicate.attribute = predicate.attribute or item.meaning
            case EnglishRole.MEDIA:
                predicate.media = True
            case EnglishRole.BASE:
                predicate.base = True
            case EnglishRole.VALUE if item.value is not None and not _belongs_to_device(items, index):
                predicate.values.append(item.value)
            case _:
                pass
    said = [item.text for item in items if item.role is not EnglishRole.FILLER]
    predicate.way = said[-1] if said and said[-1] in ("in", "out") else ""
    predicate.numbers_device = any(_numbers_device(items, index) for index in range(len(items)))
    return predicate


def _belongs_to_device(items: Sequence[Item], index: int) -> bool:
    return _counts(items, index) or _numbers_device(items, index)


def _is_preposition(items: Sequence[Item], index: int) -> bool:
    """Return True for `on` of `on the first floor`, where the clause has its verb already."""
    if items[index].text != "on":
        return False
    following = [item for item in items[index + 1 : index + 3] if item.text not in ("the", "my", "our")]
    leads = bool(following) and following[0].role in (
        EnglishRole.ROOM,
        EnglishRole.NAME,
        EnglishRole.TYPE,
        EnglishRole.REFERENCE,
        EnglishRole.WORD,
    )
    said = any(item.role in (EnglishRole.PARTICLE, EnglishRole.VALUE) for item in items[:index])
    later = any(item.role is EnglishRole.PARTICLE for item in items[index + 1 :])
    whole = any(item.role is EnglishRole.VERB and item.meaning not in ("turn", "set") for item in items[:index])
    return leads and (later or whole or said)


def _numbers_device(items: Sequence[Item], index: int) -> bool:
    """Return True for a bare number of what is switched or opened: `light 3`, `at 7`. Only `to 3` would be a value."""
    value, before = items[index].value, items[index - 1].text if index else ""
    switches = any(
        item.role in (EnglishRole.VERB, EnglishRole.PARTICLE) and item.meaning in _SWITCHING for item in items
    )
    measures = any(item.role in (EnglishRole.ATTRIBUTE, EnglishRole.MEDIA) for item in items)
    is_bare = value is not None and value.kind is ValueKind.NUMBER and not value.by
    return is_bare and switches and not measures and before != "to" and not _counts(items, index)


def _counts(items: Sequence[Item], index: int) -> bool:
    value = items[index].value
    following = [
        item for item in items[index + 1 : index + 5] if item.role not in (EnglishRole.FUNCTION, EnglishRole.ROOM)
    ]
    return (
        value is not None
        and value.kind is ValueKind.NUMBER
        and bool(following)
        and following[0].role in (EnglishRole.TYPE, EnglishRole.WORD)
        and not items[index].text.startswith("-")
    )


def choose_action(predicate: Predicate, family: str | None, *, named: bool) -> str | None:
    """Return the code of the action, or None if the clause names none.

    `family` is that of the devices, `named` says whether the clause names any device or type.
    """
    if (code := _choose_direct(predicate, family)) is not None:
        return code
    if (attribute := _find_attribute(predicate, family, named=named)) is not None:
        return ATTRIBUTE_ACTIONS[attribute]
    return _choose_switching(predicate.verb, predicate.particle, predicate, family)


def _choose_direct(predicate: Predicate, family: str | None) -> str | None:
    verb = predicate.verb
    if verb in _DIRECT and not (verb == "activate" and family not in ("scene", None)):
        return verb
    if verb in ("send", "set", "turn") and predicate.base and family in ("vacuum", None):
        return "dock"
    code: str | None = None
    match verb:
        case "go_back":
            code = "dock" if predicate.base or family == "vacuum" else "previous"
        case "send":
            code = "start" if family == "vacuum" else "dock"
        case "clean":
            code = "start"
        case "stop" | "stop_clean":
            code = "turn_off" if family in _SWITCHED and not predicate.media else "stop"
        case "start" if (value := predicate.get_value()) is not None and value.kind is ValueKind.MODE:
            code = None  # let the fan run on low
        case "start" if predicate.media:
            code = "play"
        case "start":
            code = "activate" if family == "scene" else "start" if family in _MACHINES else "turn_on"
        case _:
            pass
    return code


def _find_attribute(predicate: Predicate, family: str | None, *, named: bool) -> str | None:
    """Return the property that the clause sets."""
    value, direction = predicate.get_value(), predicate.get_direction()
    if value is None and not direction:
        setting = predicate.verb in ("set", "turn", "") and not predicate.particle
        return predicate.attribute if setting else None
    if (said := predicate.attribute or _find_said(predicate, value, family)) is not None:
        return said
    moving = family in ("cover", "valve") and predicate.verb in ("raise", "lower", "turn", "set", "")
    if value is None and (moving or predicate.verb in _SWITCHING):
        return None
    return _find_usual(predicate, value, family, named=named)


def _find_said(predicate: Predicate, value: Value | None, family: str | None) -> str | None:
    """Return the property that value, comparative or verb themselves say."""
    if value is not None and (plain := _find_by_value(value)) is not None:
        return "speed" if family == "fan" and value.text in _SPEEDS else plain
    if predicate.step and (attribute := STEPS[predicate.step][0]) is not None:
        return "color_temperature" if attribute == "temperature" and family == "light" else attribute
    return _ATTRIBUTE_VERBS.get(predicate.verb)


def _find_usual(predicate: Predicate, value: Value | None, family: str | None, *, named: bool) -> str:
    """Return the property that a number usually means for a family of devices."""
    if predicate.media:
        return "volume"
    if predicate.verb in ("open", "close") and family in _OPENING:
        return "position"
    if family in FAMILY_ATTRIBUTES:
        return FAMILY_ATTRIBUTES[family]
    return _guess_attribute(value, named=named)


def _find_by_value(value: Value) -> str | None:
    match value.kind:
        case ValueKind.COLOUR:
            return "color"
        case ValueKind.KELVIN:
            return "color_temperature"
        case ValueKind.DEGREES:
            return "temperature"
        case ValueKind.MODE:
            return "mode"
        case ValueKind.CHANNEL:
            return "source"
        case _:
            return None


def _guess_attribute(value: Value | None, *, named: bool) -> str:
    """Return what a number means where the devices do not say it: few degrees, or percent of brightness."""
    if value is None:
        return "brightness" if named else "volume"
    if value.kind is ValueKind.NUMBER and 5 <= value.number <= 35 and not value.by:
        return "temperature"
    return "brightness"


def _choose_switching(verb: str, particle: str, predicate: Predicate, family: str | None) -> str | None:
    """Choose between on and off, open and closed, by the kind of device."""
    code = verb if verb in _SWITCHING else None
    if family == "cover" and predicate.way and particle not in _PLACED and predicate.text in _MOVING:
        return "close" if predicate.way == "in" else "open"
    if predicate.text in ("draw", "pull") and particle in ("open", "close"):
        return fit_action(particle, family)
    if predicate.text == "shut" and particle in ("down", "turn_off"):
        return fit_action("turn_off", family)
    if verb in ("raise", "lower"):
        code = "open" if verb == "raise" else "close"
    elif code is None and particle:
        code = {"up": "open", "down": "close"}.get(particle, particle)
    elif verb == "activate":
        code = "turn_on"
    if code == "turn_on" and predicate.media and family in (None, "media"):
        return "play"
    if code is None and family == "scene":
        return "activate"
    return fit_action(code, family)


def fit_action(code: str | None, family: str | None) -> str | None:
    """Return the action that devices of a family can do: a lamp that is opened is turned on."""
    if family == "scene" and code in ("turn_on", "open", "start"):
        return "activate"
    if family == "lock" and code in ("open", "close"):
        return "unlock" if code == "open" else "lock"
    if family in ("cover", "valve"):
        return {"turn_on": "open", "turn_off": "close"}.get(code or "", code)
    if family not in _OPENING and family not in ("door", "window", "garage_door", "sensor", "fridge", "oven"):
        return {"open": "turn_on", "close": "turn_off"}.get(code or "", code)
    return code


def is_playing(code: str | None, predicate: Predicate) -> bool:
    """Return True for an action of players, for which `media player` is any of them."""
    return (code in _PLAYING and code != "stop") or code == "set_volume" or predicate.media
