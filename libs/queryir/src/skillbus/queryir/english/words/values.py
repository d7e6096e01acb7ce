"""Values of an English sentence: numbers, percent, degrees, colours, times and durations."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from skillbus.queryir.english.lexicon.colours import COLOURS, WHITES
from skillbus.queryir.english.lexicon.grammar_words import NUMBERS
from skillbus.queryir.english.words.tokens import EnglishWord

_NUMERAL: Final = re.compile(r"-?\d+(\.\d+)?|-?\d{1,3}(,\d{3})+(\.\d+)?")
_CLOCK: Final = re.compile(r"([01]?\d|2[0-3])[:.]([0-5]\d)")
_FRACTIONS: Final = {
    ("half",): 50.0,
    ("halfway",): 50.0,
    ("half", "way"): 50.0,
    ("a", "half"): 50.0,
    ("one", "half"): 50.0,
    ("a", "quarter"): 25.0,
    ("one", "quarter"): 25.0,
    ("three", "quarters"): 75.0,
    ("a", "third"): 33.0,
    ("one", "third"): 33.0,
    ("two", "thirds"): 67.0,
}
_HIGHEST: Final = frozenset(["max", "maximum", "full", "highest", "brightest", "loudest", "fullest", "maximal"])
_LOWEST: Final = frozenset(["min", "minimum", "lowest", "dimmest", "quietest", "minimal", "darkest"])
_UNITS: Final = (
    dict.fromkeys(("second", "sec", "s"), 1.0)
    | dict.fromkeys(("minute", "min", "m"), 60.0)
    | dict.fromkeys(("hour", "hr", "h"), 3_600.0)
    | dict.fromkeys(("day", "d"), 86_400.0)
    | {"week": 604_800.0}
)
_COUPLED: Final = frozenset({"degree", "percent", "notch", "point", *_UNITS})
_CELSIUS: Final = frozenset(["c", "celsius", "centigrade"])
_FAHRENHEIT: Final = frozenset(["f", "fahrenheit"])
_SOME: Final = {
    ("a", "bit"),
    ("a", "little"),
    ("a", "little", "bit"),
    ("slightly",),
    ("a", "touch"),
    ("a", "tad"),
    ("a", "notch"),
    ("some", "more"),
    ("little",),
    ("bit",),
    ("a", "lot"),
    ("much",),
    ("more",),
    ("less",),
    ("way",),
    ("a", "smidge"),
}


class ValueKind(StrEnum):
    """Kind of a value."""

    PERCENT = "percent"
    DEGREES = "degrees"
    """Degrees Celsius."""
    KELVIN = "kelvin"
    NUMBER = "number"
    HIGHEST = "highest"
    LOWEST = "lowest"
    COLOUR = "colour"
    AT = "at"
    UNTIL = "until"
    """Time at which to end, which no field takes."""
    AFTER = "after"
    FOR = "for"
    SOME = "some"
    """Size of a step: `a bit`."""
    MODE = "mode"
    CHANNEL = "channel"


@dataclass(frozen=True, slots=True)
class Value:
    """Value of a sentence."""

    kind: ValueKind
    number: float = 0.0
    text: str = ""
    by: bool = False
    """True for a difference: `by 10 percent`."""
    to: bool = False
    """True for a result: `to 10 percent`."""


def match_value(words: Sequence[EnglishWord], start: int) -> tuple[int, Value] | None:
    """Return the number of words and the value that begin at a place, or None."""
    return _match_time(words, start) or _match_tone(words, start) or _match_amount(words, start)


def read_number(words: Sequence[EnglishWord], start: int) -> tuple[int, float] | None:
    """Return the number of words and the number that begin at a place: `21.5`, `fifty five`, `a hundred`."""
    text, following = _get_text(words, start), _get_text(words, start + 1)
    if _NUMERAL.fullmatch(text) and len(text) <= 12:
        return 1, float(text.replace(",", ""))
    if text in ("minus", "negative") and following not in ("minus", "negative"):
        found = read_number(words, start + 1)
        return (found[0] + 1, -abs(found[1])) if found is not None else None
    if text in ("a", "one") and following == "hundred":
        return 2, 100.0
    couple = 3 if (text, following) == ("a", "couple") else 2 if text == "couple" else 0
    if couple and _get_singular(words, start + couple) in _COUPLED:
        return couple, 2.0
    return _read_spelled(words, start) if text in NUMBERS else None


def _read_spelled(words: Sequence[EnglishWord], start: int) -> tuple[int, float]:
    """Read `fifty five point two`."""
    following = _get_text(words, start + 1)
    number, length = float(NUMBERS[words[start].text]), 1
    if number >= 20 and 0 < NUMBERS.get(following, 0) < 10:
        number, length = number + NUMBERS[following], 2
    elif following == "hundred":
        number, length = number * 100, 2
    digit = _get_text(words, start + length + 1)
    tenth = int(digit) if digit.isdecimal() and len(digit) == 1 else NUMBERS.get(digit, 10)
    if _get_text(words, start + length) == "point" and tenth < 10:
        number, length = number + tenth / 10, length + 2
    return length, number


def _get_text(words: Sequence[EnglishWord], index: int) -> str:
    return words[index].text if 0 <= index < len(words) else ""


def _get_singular(words: Sequence[EnglishWord], index: int) -> str:
    return words[index].singular if 0 <= index < len(words) else ""


def _match_time(words: Sequence[EnglishWord], start: int) -> tuple[int, Value] | None:
    """Match `at 7 pm`, `in five minutes`, `for an hour`, `ten minutes later`."""
    text = words[start].text
    if text in ("for", "in", "after", "within"):
        span = _read_duration(words, start + 1)
        kind = ValueKind.FOR if text == "for" else ValueKind.AFTER
        return (span[0] + 1, Value(kind, span[1])) if span is not None else None
    if text in ("at", "by", "around", "until", "till"):
        clock = _read_clock(words, start + 1, sure=False)
        kind = ValueKind.UNTIL if text in ("until", "till") else ValueKind.AT
        return (clock[0] + 1, Value(kind, text=clock[1])) if clock is not None else None
    if (clock := _read_clock(words, start, sure=True)) is not None:
        return clock[0], Value(ValueKind.AT, text=clock[1])
    if (span := _read_duration(words, start)) is not None:
        after = [_get_text(words, start + span[0] + index) for index in (0, 1)]
        if after[0] == "later" or after == ["from", "now"]:
            return span[0] + (1 if after[0] == "later" else 2), Value(ValueKind.AFTER, span[1])
    return None


def _read_duration(words: Sequence[EnglishWord], start: int) -> tuple[int, float] | None:
    total, position = 0.0, start
    while (part := _read_span(words, position)) is not None:
        position += part[0]
        total += part[1]
        if _get_text(words, position) == "and" and _read_span(words, position + 1) is not None:
            position += 1
    return (position - start, min(total, 31_536_000.0)) if position > start else None


def _read_span(words: Sequence[EnglishWord], start: int) -> tuple[int, float] | None:
    text, following = _get_text(words, start), _get_text(words, start + 1)
    if text in ("a", "an", "one", "half", "another") or (text == "a" and following == "half"):
        skip, factor = start + 1, 0.5 if text == "half" else 1.0
        if text == "half" and following in ("a", "an"):
            skip += 1
        elif text == "a" and following == "half":
            skip, factor = skip + 1, 0.5
        if (unit := _UNITS.get(_get_singular(words, skip))) is not None:
            if [_get_text(words, skip + step) for step in (1, 2, 3)] == ["and", "a", "half"]:
                return skip + 4 - start, 1.5 * unit
            return skip + 1 - start, factor * unit
    if (number := read_number(words, start)) is None or number[1] < 0:
        return None
    position, amount = start + number[0], number[1]
    if [_get_text(words, position + step) for step in (0, 1, 2)] == ["and", "a", "half"]:
        position, amount = position + 3, amount + 0.5
    if (unit := _UNITS.get(_get_singular(words, position))) is None:
        return None
    return position + 1 - start, amount * unit


def _read_clock(words: Sequence[EnglishWord], start: int, *, sure: bool) -> tuple[int, str] | None:
    """Return a time of day. `sure` accepts only what can be nothing else: `7 pm`, `7:30`."""
    text = _get_text(words, start)
    if text in ("noon", "midday", "midnight"):
        return (1, "00:00" if text == "midnight" else "12:00") if not sure else None
    if (clock := _CLOCK.fullmatch(text)) is not None and (":" in text or not sure):
        return _finish_clock(words, start + 1, start, int(clock[1]), int(clock[2]), sure=sure and ":" not in text)
    position, minutes = _read_minutes(words, start)
    hours = read_number(words, position)
    if hours is None or hours[1] not in range(25) or minutes not in range(-59, 60):
        return None
    hour, after = int(hours[1]) % 24, position + hours[0]
    if position > start:
        return _finish_clock(words, after, start, (hour - (minutes < 0)) % 24, minutes % 60, sure=sure)
    minute = read_number(words, after)
    if minute is None or minute[1] not in range(10, 60) or words[after].after_comma:
        minute, sure = (0, 0.0), True
    return _finish_clock(words, after + minute[0], start, hour, int(minute[1]), sure=sure)


def _read_minutes(words: Sequence[EnglishWord], start: int) -> tuple[int, int]:
    """Read `half past`, `a quarter to`, `ten past`: the place behind it, and the minutes."""
    text = _get_text(words, start)
    position, minutes = start, 0
    if text in ("half", "quarter") or (text == "a" and _get_text(words, start + 1) == "quarter"):
        position += 2 if text == "a" else 1
        minutes = 30 if text == "half" else 15
    elif (number := read_number(words, start)) is not None and 0 < number[1] < 60:
        position, minutes = start + number[0], int(number[1])
    relation = _get_text(words, position)
    if position > start and relation in ("past", "to"):
        return position + 1, -minutes if relation == "to" else minutes
    return start, 0


def _finish_clock(
    words: Sequence[EnglishWord], position: int, start: int, hour: int, minute: int, *, sure: bool
) -> tuple[int, str] | None:
    """Read `pm`, `o'clock`, `in the evening` behind a time."""
    text, following = _get_text(words, position), _get_text(words, position + 1)
    if text in ("oclock", "o"):
        position += 2 if text == "o" and following == "clock" else 1
        sure = False
        text, following = _get_text(words, position), _get_text(words, position + 1)
    if text in ("am", "pm") or (text in ("a", "p") and following == "m"):
        late = text[0] == "p"
        length = 1 if text in ("am", "pm") else 2
        if hour > 12:
            return None
        return position + length - start, f"{hour % 12 + 12 * late:02}:{minute:02}"
    part = _get_text(words, position + 2)
    if text == "in" and following == "the" and part in ("morning", "evening", "afternoon"):
        late = part != "morning" and hour < 12
        return position + 3 - start, f"{hour + 12 * late:02}:{minute:02}"
    if text == "tonight" or (text == "at" and following == "night"):
        return position + (1 if text == "tonight" else 2) - start, f"{hour + 12 * (hour < 12):02}:{minute:02}"
    return None if sure else (position - start, f"{hour:02}:{minute:02}")


def _match_tone(words: Sequence[EnglishWord], start: int) -> tuple[int, Value] | None:
    texts = [word.text for word in words[start : start + 4]]
    if (white := WHITES.match(texts, 0)) is not None:
        return white[0], Value(ValueKind.KELVIN, float(white[1]), "_".join(texts[: white[0]]))
    if (colour := COLOURS.match(texts, 0)) is not None:
        return colour[0], Value(ValueKind.COLOUR, text=colour[1])
    return None


def _match_amount(words: Sequence[EnglishWord], start: int) -> tuple[int, Value] | None:
    if words[start].text == "by":
        found = _match_size(words, start + 1) if start + 1 < len(words) else None
        return (found[0] + 1, replace(found[1], by=True)) if found is not None else None
    return _match_size(words, start)


def _match_size(words: Sequence[EnglishWord], start: int) -> tuple[int, Value] | None:
    if (number := read_number(words, start)) is not None:
        return _match_unit(words, start, *number)
    texts = tuple(word.text for word in words[start : start + 3])
    for length in range(len(texts), 0, -1):
        part, following = texts[:length], _get_text(words, start + length)
        if part in _FRACTIONS and following not in ("of", "an", "past", "hour", "the"):
            return length, Value(ValueKind.PERCENT, _FRACTIONS[part])
        if part in _SOME:
            return length, Value(ValueKind.SOME)
    if texts[0] in _HIGHEST | _LOWEST:
        return 1, Value(ValueKind.HIGHEST if texts[0] in _HIGHEST else ValueKind.LOWEST)
    return None


def _match_unit(words: Sequence[EnglishWord], start: int, length: int, number: float) -> tuple[int, Value]:
    unit, following = _get_text(words, start + length), _get_text(words, start + length + 1)
    if unit in ("percent", "pct"):
        return length + 1, Value(ValueKind.PERCENT, number)
    if unit == "per" and following == "cent":
        return length + 2, Value(ValueKind.PERCENT, number)
    if unit in ("k", "kelvin") or (unit in ("degrees", "degree") and following == "kelvin"):
        factor = 1_000 if unit == "k" and number < 100 else 1
        return length + (1 if unit in ("k", "kelvin") else 2), Value(ValueKind.KELVIN, number * factor)
    degrees = unit in ("degrees", "degree", "deg")
    scale = following if degrees else unit
    if scale in _FAHRENHEIT:
        return length + 1 + degrees, Value(ValueKind.DEGREES, round((number - 32) / 1.8, 1))
    if scale in _CELSIUS or degrees:
        return length + (scale in _CELSIUS) + degrees, Value(ValueKind.DEGREES, number)
    return length, Value(ValueKind.NUMBER, number)
