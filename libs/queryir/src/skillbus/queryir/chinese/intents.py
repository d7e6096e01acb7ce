"""Finds the action of a command, and the values that it gives."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final

from skillbus.queryir.actions import ActionCode
from skillbus.queryir.chinese.families import GENERIC_VERBS, get_default_property, get_verb_action
from skillbus.queryir.chinese.lexicon import SenseKind
from skillbus.queryir.chinese.quantities import Unit
from skillbus.queryir.chinese.roles import (
    find_acting_verbs,
    find_excess,
    is_describing,
    is_particle,
    is_request_step,
)
from skillbus.queryir.chinese.segmentation import ChineseWord

_SPEED_MODES: Final = frozenset({"low", "medium", "high"})
"""Modes that are speeds of a fan."""
_ENDING: Final = frozenset({"stop", "pause"})
"""Verbs that say more than the one beside them: 停止扫地."""
_ENDING_MUTE: Final = frozenset({"取消", "解除", "停止", "关闭", "关掉"})
_STEPPING: Final = {
    "brighten": ("brightness", 1),
    "dim": ("brightness", -1),
    "louder": ("volume", 1),
    "quieter": ("volume", -1),
    "warmer": ("temperature", 1),
    "cooler": ("temperature", -1),
    "faster": ("speed", 1),
    "up": ("", 1),
    "down": ("", -1),
}
_ENDED: Final = frozenset({"on", "clean", "work", "wash", "start", "play"})
"""Verbs for what may go on, and end: 别扫了."""
_MOST_NEGATIONS: Final = 10
"""More in one command are no spoken command, and would take time."""
_STATES: Final = frozenset({"亮", "响", "吵", "热", "说", "讲", "叫", "转", "加热", "摇头", "通风", "送风", "移动"})
"""Other words of the lexicon for it."""
_UNIT_PROPERTIES: Final = {
    Unit.DEGREES: "temperature",
    Unit.KELVIN: "color_temperature",
    Unit.LEVEL: "speed",
    Unit.CHANNEL: "channel",
}
_VALUES: Final = (Unit.PERCENT, Unit.DEGREES, Unit.KELVIN, Unit.LEVEL, Unit.CHANNEL, Unit.NUMBER)


@dataclass
class Intent:
    """Action of a command."""

    code: ActionCode | None = None
    verb: str = ""
    guessed: bool = False
    is_question: bool = False
    property: str = ""
    values: dict[str, float | str] = field(default_factory=dict)
    """Values by the names of `QueryArguments`."""


class CommandSigns:
    """Signs of an action among the words of a command."""

    def __init__(self, words: Sequence[ChineseWord]) -> None:
        self.words = [word for word in words if not word.plays(SenseKind.PAUSE)]
        acting = find_acting_verbs(self.words)
        self.verbs = [self.words[index] for index in acting]

    @cached_property
    def verb(self) -> str:
        """Meaning of the verb that decides: a special one before a general one, the last before the first."""
        verbs = [word for word in self.verbs if not is_particle(word)]
        if len(verbs) > 1:
            verbs = [word for word in verbs if not self._is_noun(word)] or verbs
        values = [value for word in verbs for value in sorted(word.list_values(SenseKind.VERB))]
        if "mute" in values and any(word.text in _ENDING_MUTE for word in verbs):
            return "unmute"  # 取消小爱的静音
        special = [value for value in values if value not in GENERIC_VERBS and value not in ("set", "maybe_dock")]
        special = [one for one in special if one in _ENDING] or special
        return (special or [one for one in values if one != "query"] or values or [""])[-1]

    def _is_noun(self, word: ChineseWord) -> bool:
        """Return True for 锁 after a name, beside another verb: 打开前门锁, 把前门的锁打开."""
        if word.text != "锁":
            return False
        before = [one for one in self.words if one.end <= word.start]
        joined = bool(before) and before[-1].end == word.start
        if joined and before[-1].plays(SenseKind.POSSESSIVE):
            before = before[:-1]
        return joined and bool(before) and before[-1].plays(SenseKind.NAME, SenseKind.TYPE, SenseKind.ROOM)

    @cached_property
    def ended(self) -> ChineseWord | None:
        """Word for what goes on and shall end: 扫 of 别扫了, 唱 of 别再唱了. It need not be in the lexicon."""
        negated = [index for index, word in enumerate(self.words[:-1]) if word.plays(SenseKind.NOT)]
        for index in negated[:_MOST_NEGATIONS]:
            rest = self.words[index + 1 :]
            caused = [one for one in rest if one.list_values(SenseKind.VERB) & _ENDED]
            if rest[0].text in ("让", "叫") and caused:
                return caused[-1]  # 别让扫地机工作
            while rest and rest[0].plays(SenseKind.AGAIN, SenseKind.POLITE, SenseKind.FILLER, SenseKind.OBJECT):
                rest = rest[1:]
            if not any(one.text in ("了", "啦", "了啦") for one in rest[1:]):
                continue
            goes_on = not rest[0].senses or rest[0].text in _STATES
            if goes_on or rest[0].list_values(SenseKind.VERB) & _ENDED:
                return rest[0]
        return None

    @cached_property
    def locks(self) -> bool:
        """True if any verb is about locks, also one that describes."""
        verbs = {value for word in self.words for value in word.list_values(SenseKind.VERB)}
        asked = any(word.plays(SenseKind.QUESTION) and "锁" in word.text for word in self.words)
        return asked or bool(verbs & {"lock", "unlock"})

    @cached_property
    def property(self) -> str:
        """Property that the command names."""
        names = [word.get_value(SenseKind.PROPERTY) for word in self.words if word.plays(SenseKind.PROPERTY)]
        return names[-1] if names else ""

    @cached_property
    def sets(self) -> bool:
        """True if a verb sets something."""
        return any("set" in word.list_values(SenseKind.VERB) for word in self.verbs)

    @cached_property
    def is_question(self) -> bool:
        """True for a question; a request such as 能把灯关了吗 is none."""
        plays = self._plays
        if any(self._asks(index) for index in range(len(self.words))) or self.verb == "query":
            return True
        if plays(SenseKind.MODAL) or plays(SenseKind.OBJECT):
            return False
        supposed = plays(SenseKind.NOT_YET) or any(word.text == "是" for word in self.words)
        if supposed and not self.verbs and self.words[-1].text == "吧":
            return True  # 院门没锁吧, 院门是锁着的吧
        last = [word for word in self.words if not word.plays(SenseKind.FILLER)][-1:]
        ends = bool(last) and last[0].plays(SenseKind.NOT_YET, SenseKind.SOFT_QUESTION)
        return ends or any(word.text == "吗" for word in self.words)

    def _asks(self, index: int) -> bool:
        """Return True for a question word; 几盏 after a verb is none: 关几盏灯."""
        word = self.words[index]
        if word.plays(SenseKind.SOME) and index and self.words[index - 1] in self.verbs:
            return False
        return word.plays(SenseKind.QUESTION)

    def _plays(self, *kinds: SenseKind) -> bool:
        return any(word.plays(*kinds) for word in self.words)

    @cached_property
    def quantity(self) -> tuple[Unit, float] | None:
        """Value that is set."""
        found = [word.quantity for word in self.words if word.quantity and word.quantity.unit in _VALUES]
        return (found[-1].unit, found[-1].value) if found else None

    @cached_property
    def halves(self) -> bool:
        """True for 关掉一半: some of the devices, where each is on or off."""
        return self.verb == "off" and not self.sets and any(word.text in ("一半", "对半") for word in self.words)

    @cached_property
    def station(self) -> str:
        """Number of a channel that is said as 53台."""
        counts = (word.quantity for word in self.words if word.quantity and word.text.endswith("台"))
        return next((str(int(one.value)) for one in counts if one.unit is Unit.COUNT), "")

    @cached_property
    def step(self) -> tuple[str, int] | None:
        """Property and direction of 亮一点, 调高 or 别那么亮. The property is empty if only its target says it."""
        excess = find_excess(self.words)
        if excess is not None:
            value = self.words[excess].get_value(SenseKind.ADJECTIVE)
            return value[:-1], -1 if value.endswith("+") else 1
        for word in self.verbs:
            for value in word.list_values(SenseKind.VERB):
                if value in _STEPPING and (value != "faster" or len(self.verbs) == 1):
                    return _STEPPING[value]
        for index, word in enumerate(self.words):
            if word.plays(SenseKind.ADJECTIVE) and is_request_step(self.words, index):
                value = word.get_value(SenseKind.ADJECTIVE)
                return value[:-1], 1 if value.endswith("+") else -1
        return None

    @cached_property
    def extreme(self) -> str:
        """Meaning of 最大, 最暗 and the like."""
        for index, word in enumerate(self.words):
            if word.plays(SenseKind.EXTREME) and not is_describing(self.words, index):  # 最亮的灯
                return word.get_value(SenseKind.EXTREME)
        return ""

    @cached_property
    def colour(self) -> ChineseWord | None:
        """Colour that is set. One that describes is not: 红色的灯."""
        for index, word in enumerate(self.words):
            if word.plays(SenseKind.COLOUR, SenseKind.KELVIN) and not word.plays(SenseKind.NAME):
                after = self.words[index + 1 : index + 3]
                describes = any(one.plays(SenseKind.TYPE, SenseKind.KIND, SenseKind.NAME) for one in after)
                if self.sets or not describes:
                    return word
        return None

    @cached_property
    def mode(self) -> str:
        """Mode that is set; of 影视模式 with an unknown word before, that word."""
        for word in self.words:
            if word.plays(SenseKind.MODE) and not word.plays(SenseKind.NAME) and word.room is None:
                return word.get_value(SenseKind.MODE)
        for word, after in pairwise(self.words):
            if after.text == "模式" and (not word.senses or word.plays(SenseKind.KIND)):
                return word.text
        return ""


def read_intent(signs: CommandSigns, family: str, *, has_target: bool) -> Intent:
    """Return the action of a command about devices of a family."""
    if signs.is_question:
        return Intent(_choose_question(signs), signs.verb, is_question=True)
    found = _read_setting(signs, family, has_target=has_target)
    if found is not None:
        return found
    code = get_verb_action(signs.verb, family)
    if code is not None:
        return Intent(code, signs.verb)
    if signs.sets:
        unknown = any(not word.senses for word in signs.words)  # 换到央视
        tuned = family == "media" and not signs.property and unknown
        name = "channel" if tuned else get_default_property(family)
        return Intent(ActionCode(f"set_{name}"), "set", guessed=True, property=name)
    if signs.ended is not None:
        return Intent(_choose_end(signs.ended, family))
    return Intent() if signs.verb else _read_verbless(signs, family)


def _choose_end(word: ChineseWord, family: str) -> ActionCode | None:
    """Return the action that ends what goes on: a speaker pauses, a machine stops, all else is turned off."""
    verbs = word.list_values(SenseKind.VERB)
    if "on" in verbs or word.text == "亮":
        return ActionCode.TURN_OFF
    return ActionCode.PAUSE if family == "media" or "play" in verbs else get_verb_action("stop", family)


def _read_verbless(signs: CommandSigns, family: str) -> Intent:
    """Return the action of 卧室温度, or of 观影模式."""
    if signs.property in ("temperature", "humidity", "state"):
        return Intent(_choose_question(signs), is_question=True)
    if family == "scene":
        return Intent(ActionCode.ACTIVATE)
    if family == "sensor":
        return Intent(ActionCode.QUERY_STATE, is_question=True)
    return Intent()


def _choose_question(signs: CommandSigns) -> ActionCode:
    questions = "".join(word.text for word in signs.words if word.plays(SenseKind.QUESTION))
    if signs.property == "temperature" or any(one in questions for one in "度热冷"):
        return ActionCode.QUERY_TEMPERATURE
    if signs.property == "humidity" or any(one in questions for one in "湿潮"):
        return ActionCode.QUERY_HUMIDITY
    return ActionCode.QUERY_STATE


def _read_setting(signs: CommandSigns, family: str, *, has_target: bool) -> Intent | None:
    """Return the setting of a property, or None if the command sets none."""
    if family == "media" and signs.sets and (station := signs.station):
        return Intent(ActionCode.SET_CHANNEL, "set", property="channel", values={"channel": station})
    if signs.halves and family in ("light", "climate", "fan"):
        return None
    found = _read_colour(signs) or _read_mode(signs, family, has_target=has_target)
    degrees = signs.quantity is not None and signs.quantity[0] is Unit.DEGREES
    if (found is None or (degrees and found.property == "mode")) and (signs.quantity is not None or signs.extreme):
        value = _read_value(signs, family)
        if value is not None and found is not None:
            value.values |= found.values
        return value
    if found is None and signs.step is not None:
        moves = family == "cover" and signs.verb in ("up", "down") and not signs.property
        found = None if moves else _read_step(signs, family, signs.step)
    if found is None and signs.property not in ("", "state") and signs.sets:
        found = Intent(ActionCode(f"set_{signs.property}"), "set", property=signs.property)
    if found is None and signs.property == "volume" and signs.verb in ("off", "on"):
        found = Intent(ActionCode.MUTE if signs.verb == "off" else ActionCode.UNMUTE, signs.verb)
    return found


def _read_mode(signs: CommandSigns, family: str, *, has_target: bool) -> Intent | None:
    mode = signs.mode
    if not mode or family == "scene" or not has_target:
        return None
    if not signs.sets and (signs.verb not in ("", "on", "start", "activate") or signs.property not in _MODE_PROPERTIES):
        return None
    is_speed = mode in _SPEED_MODES and (family == "fan" or signs.property == "speed")
    code = ActionCode.SET_SPEED if is_speed else ActionCode.SET_MODE
    return Intent(code, signs.verb, property="speed" if is_speed else "mode", values={"mode": mode})


_MODE_PROPERTIES: Final = ("mode", "speed", "")
"""Properties beside which a word such as 自动 is a mode."""


def _read_colour(signs: CommandSigns) -> Intent | None:
    word = signs.colour
    if word is None or not (signs.sets or signs.verb in ("", "on")):
        return None
    kelvin = word.get_value(SenseKind.KELVIN)
    if kelvin:
        values: dict[str, float | str] = {"colour_temperature": float(kelvin)}
        return Intent(ActionCode.SET_COLOR_TEMPERATURE, "set", property="color_temperature", values=values)
    values = {"colour": word.get_value(SenseKind.COLOUR)}
    return Intent(ActionCode.SET_COLOR, "set", property="color", values=values)


def _read_value(signs: CommandSigns, family: str) -> Intent | None:
    unit, value = signs.quantity or (Unit.PERCENT, 0.0)
    extreme = signs.extreme.split()
    named = signs.property if signs.property not in ("", "state", "mode") else ""
    stepped = signs.step[0] if signs.step else ""
    if unit is Unit.DEGREES and named == "speed":
        named = ""
    name = named or _UNIT_PROPERTIES.get(unit, "") or (extreme[0] if len(extreme) > 1 else "") or stepped
    if unit is Unit.NUMBER and not name and not (signs.sets or signs.step or extreme):
        return None
    guessed = not name and not family
    name = name or get_default_property(family)
    if name == "temperature" and unit is Unit.PERCENT and not extreme and not named:
        name = "brightness"
    intent = Intent(ActionCode(f"set_{name}"), signs.verb or "set", property=name, guessed=guessed)
    if extreme and signs.quantity is None:
        value = float(extreme[1]) if len(extreme) > 1 else _EXTREMES.get((name, extreme[0]), 100.0)
    step = signs.step is not None and not signs.sets and signs.quantity is not None
    _fill_value(intent, name, unit, -value if step and signs.step and signs.step[1] < 0 else value, step=step)
    return intent


_EXTREMES: Final = {
    ("brightness", "min"): 1.0,
    ("volume", "min"): 0.0,
    ("position", "min"): 0.0,
    ("temperature", "max"): 30.0,
    ("temperature", "min"): 16.0,
    ("humidity", "min"): 30.0,
    ("humidity", "max"): 80.0,
    ("speed", "min"): 1.0,
}
_STEPS: Final = {"brightness": 10.0, "volume": 10.0, "temperature": 1.0}


def _fill_value(intent: Intent, name: str, unit: Unit, value: float, *, step: bool) -> None:
    if name in _STEPS and step:
        intent.values[f"{name}_step"] = value
    elif name == "speed":
        intent.values["level"] = float(int(value))
    elif name == "color_temperature":
        intent.values["colour_temperature"] = value
    elif name == "channel":
        intent.values["channel"] = str(int(value))
    elif name in ("brightness", "volume", "position", "humidity", "temperature") and not step:
        intent.values[name] = value


def _read_step(signs: CommandSigns, family: str, step: tuple[str, int]) -> Intent:
    named = signs.property if signs.property not in ("", "state", "mode") else ""
    name = named or step[0] or get_default_property(family)
    if name == "temperature" and family == "light":
        name = "color_temperature"
    intent = Intent(ActionCode(f"set_{name}"), signs.verb, property=name)
    if name in _STEPS:
        intent.values[f"{name}_step"] = step[1] * _STEPS[name]
    return intent
