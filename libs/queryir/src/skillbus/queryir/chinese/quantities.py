"""Numbers of a sentence with their units: percent, degrees, steps, times of day, durations, counts."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_DIGITS: Final = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_POWERS: Final = {"十": 10, "百": 100, "千": 1_000, "万": 10_000}

_N: Final = r"(?:\d{1,7}(?:\.\d{1,7})?|[零〇一二两三四五六七八九十百千]{1,7})"
_DURATION: Final = rf"(?:{_N}个?半?|半个?)(?:秒钟?|分钟?|小时|钟头|天)半?"
_DAYTIME: Final = r"(?:今天|明天|今|明)?(?:早上|早晨|上午|中午|下午|晚上|傍晚|凌晨|半夜|夜里|清晨|早|晚)"
_PERCENT: Final = (
    rf"(?P<percent>百分之(?P<p1>{_N}|百)|(?P<p2>{_N})(?:%|百分比|个百分点)|(?P<p3>{_N})成"
    r"|(?P<p4>[一二三四五])分之(?P<p5>[一二三四])|(?P<half1>一半|对半|半)(?![个小夜天分秒]))"
)
_TIME: Final = (
    rf"(?P<at>(?P<day>{_DAYTIME})?的?(?:(?P<h1>\d{{1,2}}):(?P<m1>\d{{2}})(?!\d)"
    rf"|(?P<h2>{_N})(?:点钟|点整|点|时(?!候|间))(?:(?P<half>半)|(?P<quarter>[一三])刻|(?P<m2>{_N})分?)?))"
)
_PATTERN: Final = re.compile(
    "|".join(
        (
            _PERCENT,
            _TIME,
            rf"(?P<after1>(?P<time1>{_DURATION})(?:以后|之后|过后|后)|(?:过|等)(?P<time3>{_DURATION}))",
            rf"(?P<for1>(?P<time2>{_DURATION}))",
            rf"(?P<fahrenheit>(?:华氏度?(?P<f1>{_N})度?)|(?P<f2>{_N})(?:°f|华氏度))",
            rf"(?P<degrees>(?:摄氏度?)?(?P<d0>零下|负|-)?(?P<d1>{_N})(?:点(?P<d3>{_N}))?(?:摄氏度|度(?P<d2>半)?|°c|°))",
            r"(?P<kelvin>(?P<k1>\d{4,5})k(?![a-z]))",
            rf"(?P<level>第?(?P<l1>{_N})(?:档|挡|级|段|格))",
            rf"(?P<channel>第?(?P<c1>{_N})频道|第(?P<c2>{_N})台)",
            rf"(?P<ordinal>第(?P<o1>{_N})(?:个|盏|扇|只|支|部|道|顶|条|组|块|架|处|间))",
            rf"(?P<count>(?P<n1>{_N})(?:个|盏|台|扇|只|支|部|道|顶|条|组|块|架|樘|幅|副|串|套|座|处|间))",
            r"(?P<number>(?<![\d.])-?\d+(?:\.\d+)?(?![\d])|[零〇一二两三四五六七八九十百]+)",
        )
    )
)


class Unit(StrEnum):
    """Unit of a quantity."""

    AT = "at"
    """Text, `HH:MM`."""
    AFTER = "after"
    """Seconds to wait."""
    DURATION = "for"
    """Seconds that the action lasts."""
    PERCENT = "percent"
    DEGREES = "degrees"
    """Celsius."""
    KELVIN = "kelvin"
    LEVEL = "level"
    CHANNEL = "channel"
    ORDINAL = "ordinal"
    """第二个: tells devices apart."""
    COUNT = "count"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class Quantity:
    """Number of a sentence."""

    start: int
    end: int
    unit: Unit
    value: float
    text: str = ""
    """Time of day, for the unit `at`."""


def find_quantities(text: str) -> Iterator[Quantity]:
    """Yield the quantities of a folded text, left to right, without overlap."""
    for match in _PATTERN.finditer(text):
        quantity = _read_match(match)
        if quantity is not None:
            yield quantity


def parse_number(word: str) -> float:
    """Return the value of a number in digits or Chinese numerals: 二十六, 两百, 一二三."""
    if word[0].isdecimal():
        return float(word)
    if not any(one in _POWERS for one in word):
        return float("".join(str(_DIGITS[one]) for one in word))
    total = 0
    digit: int | None = None
    for one in word:
        if one in _DIGITS:
            digit = _DIGITS[one]
        else:
            total += (1 if digit is None else digit) * _POWERS[one]
            digit = None
    return float(total + (digit or 0))


def _read_match(match: re.Match[str]) -> Quantity | None:
    start, end = match.span()
    unit = _UNITS[next(name for name in _UNITS if match[name] is not None)]
    if unit is Unit.AT:
        time = _read_time(match)
        return Quantity(start, end, unit, 0.0, time) if time else None
    value = _READERS[unit](match)
    return None if value is None or value > 1e7 else Quantity(start, end, unit, value)


def _read_time(match: re.Match[str]) -> str | None:
    hour = int(parse_number(match["h1"] or match["h2"]))
    minutes = match["m1"] or match["m2"]
    minute = 30 if match["half"] else int(parse_number(minutes)) if minutes else 0
    if match["quarter"]:
        minute = 15 if match["quarter"] == "一" else 45
    day = match["day"] or ""
    if match["h2"] == "一" and not (day or match["half"] or match["quarter"] or minutes) and "钟" not in match[0]:
        return None  # 一点 means a little
    if hour < 12 and any(part in day for part in ("下午", "晚", "傍晚")):
        hour += 12
    if hour < 11 and "中午" in day:
        hour += 12
    if hour == 24 or (hour == 12 and any(part in day for part in ("晚", "半夜", "凌晨"))):
        hour = 0
    return f"{hour:02d}:{minute:02d}" if hour < 24 and minute < 60 else None


_SECONDS: Final = (("秒", 1), ("分", 60), ("小时", 3_600), ("钟头", 3_600), ("天", 86_400))


def _read_seconds(words: str) -> float:
    scale = next(seconds for word, seconds in _SECONDS if word in words)
    number = re.match(_N, words)
    amount = parse_number(number[0]) if number else 0.0
    return (amount + (0.5 if "半" in words else 0.0)) * scale


def _read_percent(match: re.Match[str]) -> float | None:
    if match["half1"]:
        value = 50.0
    elif match["p1"]:
        value = 100.0 if match["p1"] == "百" else parse_number(match["p1"])
    elif match["p2"]:
        value = parse_number(match["p2"])
    elif match["p3"]:
        value = parse_number(match["p3"]) * 10
    else:
        value = 100 * parse_number(match["p5"]) / parse_number(match["p4"])
    return value


def _read_degrees(match: re.Match[str]) -> float | None:
    if match["fahrenheit"]:
        return round((parse_number(match["f1"] or match["f2"]) - 32) / 1.8, 1)
    value = parse_number(match["d1"]) + (0.5 if match["d2"] else 0.0)
    if match["d3"]:
        value += parse_number(match["d3"]) / 10
    return -value if match["d0"] else value


_UNITS: Final = {
    "at": Unit.AT,
    "after1": Unit.AFTER,
    "for1": Unit.DURATION,
    "percent": Unit.PERCENT,
    "fahrenheit": Unit.DEGREES,
    "degrees": Unit.DEGREES,
    "kelvin": Unit.KELVIN,
    "level": Unit.LEVEL,
    "channel": Unit.CHANNEL,
    "ordinal": Unit.ORDINAL,
    "count": Unit.COUNT,
    "number": Unit.NUMBER,
}
_READERS: Final[Mapping[Unit, Callable[[re.Match[str]], float | None]]] = {
    Unit.AFTER: lambda match: _read_seconds(match["time1"] or match["time3"]),
    Unit.DURATION: lambda match: _read_seconds(match["time2"]),
    Unit.PERCENT: _read_percent,
    Unit.DEGREES: _read_degrees,
    Unit.KELVIN: lambda match: float(match["k1"]),
    Unit.LEVEL: lambda match: parse_number(match["l1"]),
    Unit.CHANNEL: lambda match: parse_number(match["c1"] or match["c2"]),
    Unit.ORDINAL: lambda match: parse_number(match["o1"]),
    Unit.COUNT: lambda match: parse_number(match["n1"]),
    Unit.NUMBER: lambda match: parse_number(match["number"].lstrip("-")) * (-1 if match["number"][0] == "-" else 1),
}
