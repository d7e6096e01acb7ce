"""Parts that words play where they stand: verbs that act, verbs that describe, names that are words too."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from skillbus.queryir.chinese.lexicon import Sense, SenseKind, load_lexicon
from skillbus.queryir.chinese.quantities import Unit
from skillbus.queryir.chinese.segmentation import ChineseWord

CONTENT_KINDS: Final = frozenset(
    {
        SenseKind.NAME,
        SenseKind.ROOM,
        SenseKind.TYPE,
        SenseKind.KIND,
        SenseKind.MEASURE,
        SenseKind.PROPERTY,
        SenseKind.COLOUR,
        SenseKind.MODE,
        SenseKind.CONTENT,
        SenseKind.QUANTITY,
        SenseKind.ADJECTIVE,
        SenseKind.EXTREME,
    }
)
HEADS: Final = (SenseKind.NAME, SenseKind.TYPE, SenseKind.KIND, SenseKind.REFERENCE, SenseKind.DEMONSTRATIVE)
_DESCRIBED: Final = (*HEADS, SenseKind.OTHER, SenseKind.ROOM, SenseKind.ONE)
_CAUSED_WITHIN: Final = 20
"""Words between 让 and the verb that it is about, at most."""
_SCENES: Final = frozenset({"scene", "script", "automation", "routine"})
_RETURNING: Final = frozenset({"on", "off", "open", "close", "set", "raise", "lower", "up", "down", "brighten", "dim"})
"""Verbs that 回来 and 回去 turn back to the state before."""
_TUNING: Final = frozenset({"set", "watch", "play", "toggle"})
"""Verbs that tune a channel."""
_UNLOCKING: Final = (Sense(SenseKind.VERB, "unlock"),)
_PARTICLES: Final = frozenset("到为成至")
_EXCESSES: Final = frozenset({"那么", "这么", "太", "过于", "这样", "那样"})
"""Degrees that are too much."""
_STAYING: Final = frozenset({"吧", "呗", "就行", "就好", "就可以", "就可以了", "就行了"})
"""Ends of a request that a device stays as it is, or goes there: 开着吧."""


def settle_names(words: Sequence[ChineseWord]) -> list[ChineseWord]:
    """Decide for each name that is a word of the grammar too which of them it is.

    A name that is a verb is the name if another verb stands beside it; of two such words the last. A name that is
    another word of the grammar is the name if no other device is mentioned.
    """
    settled = list(words)
    for index in reversed(range(len(settled))):
        word = settled[index]
        if word.name is None:
            continue
        others = [*settled[:index], *settled[index + 1 :]]
        if _is_mode(word, settled, index):
            settled[index] = _as_mode(word)
            continue
        if word.plays(SenseKind.VERB):
            is_name = any(other.plays(SenseKind.VERB) for other in others)
        elif any(sense.kind not in CONTENT_KINDS for sense in word.senses):
            is_name = not any(other.plays(*HEADS, SenseKind.ROOM) for other in others)
        else:
            continue
        settled[index] = _as_name(word) if is_name else _without_name(word)
    return settled


def _is_mode(word: ChineseWord, words: Sequence[ChineseWord], index: int) -> bool:
    """Return True for a scene beside a device: 空调睡眠模式 is a mode of it."""
    if word.name is None or not word.text.endswith("模式") or any(one.type not in _SCENES for one in word.name.devices):
        return False
    joined = any(one.plays(SenseKind.AND) for one in words[max(0, index - 1) : index + 2])
    devices = (one for one in words[:index] if one.plays(SenseKind.NAME, SenseKind.TYPE, SenseKind.REFERENCE))
    return not joined and any(one.name is None or one.name.devices[0].type not in _SCENES for one in devices)


def _as_mode(word: ChineseWord) -> ChineseWord:
    known = load_lexicon().words.get(word.text.removesuffix("模式"), ())
    value = next((one.value for one in known if one.kind is SenseKind.MODE), word.text.removesuffix("模式"))
    return replace(word, name=None, senses=(Sense(SenseKind.MODE, value),))


def _as_name(word: ChineseWord) -> ChineseWord:
    return replace(word, senses=(Sense(SenseKind.NAME),))


def _without_name(word: ChineseWord) -> ChineseWord:
    return replace(word, name=None, senses=tuple(one for one in word.senses if one.kind is not SenseKind.NAME))


def settle_complements(words: Sequence[ChineseWord]) -> list[ChineseWord]:
    """Decide for words after a verb whether they only complete it.

    回来 of 开回来 is no way home, 它 of 调它个26度 refers to nothing, and 锁 of 开个锁 is what is opened.
    """
    settled = [_settle_pointer(words, index) for index in range(len(words))]
    settled = [_settle_keeping(settled, index) for index in range(len(settled))]
    for index in range(1, len(settled)):
        word, before = settled[index], settled[index - 1]
        after = settled[index + 1] if index + 1 < len(settled) else None
        touches = before.end == word.start and is_verb(before)
        if touches and word.text in ("回来", "回去") and before.get_value(SenseKind.VERB) in _RETURNING:
            settled[index] = replace(word, senses=(Sense(SenseKind.ASPECT),))
        elif touches and word.text == "它" and after and (after.text == "个" or after.plays(SenseKind.QUANTITY)):
            settled[index] = replace(word, senses=(Sense(SenseKind.FILLER),))
        elif word.text == "锁" and before.text in ("个", "一下", "下") and index > 1:
            verb = settled[index - 2]
            if is_verb(verb) and verb.get_value(SenseKind.VERB) == "on":
                settled[index - 2] = replace(verb, senses=_UNLOCKING)
                settled[index] = replace(word, senses=(Sense(SenseKind.FILLER),))
    return settled


def _settle_keeping(words: Sequence[ChineseWord], index: int) -> ChineseWord:
    """Return 保持 without a value behind it as what leaves a device as it is: 次卧的保持."""
    word = words[index]
    if word.text != "保持":
        return word
    end = next((at for at in range(index, len(words)) if words[at].plays(SenseKind.PAUSE)), len(words))
    values = (SenseKind.QUANTITY, SenseKind.EXTREME, SenseKind.COLOUR, SenseKind.KELVIN, SenseKind.MODE)
    if any(one.plays(*values) for one in words[index:end]):
        return word
    return replace(word, senses=(Sense(SenseKind.LEAVE),))


def _settle_pointer(words: Sequence[ChineseWord], index: int) -> ChineseWord:
    """Return 这 before a type as a demonstrative, and 第二台 as a channel only behind what tunes one."""
    word = words[index]
    after = words[index + 1] if index + 1 < len(words) else None
    noun = after is not None and after.plays(SenseKind.TYPE, SenseKind.KIND)
    if noun and (word.text == "这" or (word.text == "那" and index and not words[index - 1].plays(SenseKind.PAUSE))):
        return replace(word, senses=(Sense(SenseKind.DEMONSTRATIVE),))
    quantity = word.quantity
    if quantity is not None and quantity.unit is Unit.CHANNEL and word.text.endswith("台"):
        tuned = any(one.list_values(SenseKind.VERB) & _TUNING for one in words[:index])
        tuned = tuned or (index > 0 and words[index - 1].get_value(SenseKind.TYPE).startswith("tv"))
        if noun or not tuned:
            senses = (Sense(SenseKind.QUANTITY, Unit.ORDINAL),)
            return replace(word, quantity=replace(quantity, unit=Unit.ORDINAL), senses=senses)
    return word


def is_verb(word: ChineseWord) -> bool:
    """Return True for a verb that is no name."""
    return word.plays(SenseKind.VERB) and not word.plays(SenseKind.NAME)


def is_particle(word: ChineseWord) -> bool:
    """Return True for 到, 为, 成: a verb only beside a value."""
    return word.text in _PARTICLES


def is_describing(words: Sequence[ChineseWord], index: int) -> bool:
    """Return True for a verb or adjective that describes a device: 开着, 没关, 打开的那个."""
    if index > 0 and words[index - 1].plays(SenseKind.NOT_YET, SenseKind.DEGREE):
        return True
    if index > 0 and words[index - 1].plays(SenseKind.RECENT):
        return any(one.plays(SenseKind.POSSESSIVE) for one in words[index + 1 : index + 3])
    after = index + 1
    if after < len(words) and words[after].text == "着":
        return not _is_request_to_stay(words, index)
    while after < len(words) and words[after].plays(SenseKind.ASPECT):
        after += 1
    if after + 1 >= len(words) or not words[after].plays(SenseKind.POSSESSIVE):
        return False
    return words[after + 1].plays(*_DESCRIBED) and not words[after].plays(SenseKind.VERB)


def _is_request_to_stay(words: Sequence[ChineseWord], index: int) -> bool:
    """Return True for a verb with 着 at the end of a request: 帮我开着, 开着吧."""
    rest = words[index + 2 :]
    last = all(word.plays(SenseKind.FILLER, SenseKind.PAUSE) for word in rest)
    return last and any(
        word.text in _STAYING or (word.start < words[index].start and word.plays(SenseKind.POLITE)) for word in words
    )


def find_acting_verbs(words: Sequence[ChineseWord]) -> list[int]:
    """Return the positions of the verbs that act, in order. Negated and describing verbs do not."""
    return [
        index
        for index, word in enumerate(words)
        if is_verb(word) and not is_describing(words, index) and not is_negated(words, index)
    ]


def is_negated(words: Sequence[ChineseWord], index: int) -> bool:
    """Return True for a verb after 不要, 别, 不用."""
    before = index - 1
    nearest = range(before, max(0, before - _CAUSED_WITHIN), -1)
    causing = next((at for at in nearest if words[at].text in ("让", "叫")), 0)
    if causing and words[causing - 1].plays(SenseKind.NOT):
        return True  # 别让扫地机工作
    while before >= 0 and words[before].plays(SenseKind.AGAIN, SenseKind.OBJECT, SenseKind.POLITE):
        before -= 1
    return before >= 0 and words[before].plays(SenseKind.NOT)


def find_excess(words: Sequence[ChineseWord]) -> int | None:
    """Return the position of the adjective of 别那么亮 or 别开这么大, of which less is wanted; None without one."""
    for index in range(1, len(words)):
        if not words[index].plays(SenseKind.ADJECTIVE) or words[index - 1].text not in _EXCESSES:
            continue
        before = index - 2
        while before >= 0 and (is_verb(words[before]) or words[before].plays(SenseKind.ASPECT, SenseKind.POSSESSIVE)):
            before -= 1
        if before >= 0 and words[before].plays(SenseKind.NOT):
            return index
    return None


def is_request_step(words: Sequence[ChineseWord], index: int) -> bool:
    """Return True for an adjective that asks for more or less: 亮一点, 再暗, not 太亮 or 有点冷."""
    before = words[index - 1] if index else None
    after = words[index + 1] if index + 1 < len(words) else None
    if (before is not None and before.plays(SenseKind.DEGREE)) or is_describing(words, index):
        return False  # 太亮, 亮着的灯
    if words[index].text in ("多", "少") and index + 2 < len(words) and words[index + 2].plays(SenseKind.STEP):
        acted = words[index + 1]
        return is_verb(acted) or not acted.senses  # 多喷点, 少吹一点
    asked = after is not None and after.plays(SenseKind.STEP, SenseKind.QUANTITY)
    return asked or (before is not None and before.plays(SenseKind.AGAIN, SenseKind.VERB, SenseKind.STEP))
