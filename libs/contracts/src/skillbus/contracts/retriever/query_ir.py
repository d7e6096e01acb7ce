"""QueryIR: what a spoken command means, as fields.

Grammar and model fill the same fields. The values are those of the sentence: nothing here says which devices exist.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from skillbus.contracts.message import NOT_BLANK, WITHOUT_NUL, Message

MAX_SENTENCE: Final = 1_000
"""Longest sentence, in characters."""
MAX_QUERIES: Final = 8
"""Most commands of one sentence."""

Sentence = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_SENTENCE),
    WITHOUT_NUL,
    NOT_BLANK,
    Field(description="Spoken command in Chinese or English, such as `打开除卧室以外的灯`."),
]


class Quantifier(StrEnum):
    """Share of the fitting devices that is meant. Absent means that the sentence does not say."""

    ALL = "all"
    EXCEPT = "except"
    """All but those of `scope_exclude`."""
    ONE = "one"
    """Any one of them."""
    SOME = "some"
    COUNT = "count"
    """The number that `arguments.count` says."""


class Reference(StrEnum):
    """Word that stands for devices of an earlier sentence."""

    LAST_MENTIONED = "last-mentioned"


Percent = Annotated[float, Field(ge=0, le=100)]
PercentStep = Annotated[float, Field(ge=-100, le=100)]


class QueryArguments(Message):
    """Values that the sentence gives to the action. A step is relative: negative means less."""

    brightness: Percent | None = None
    brightness_step: PercentStep | None = None
    colour: str | None = None
    """English name, such as `red` or `warm_yellow`."""
    colour_temperature: float | None = Field(default=None, ge=1_000, le=20_000)
    """Kelvin."""
    temperature: float | None = Field(default=None, ge=-100, le=1_000)
    """Degrees Celsius. Fahrenheit is converted."""
    temperature_step: float | None = Field(default=None, ge=-100, le=100)
    humidity: Percent | None = None
    volume: Percent | None = None
    volume_step: PercentStep | None = None
    position: Percent | None = None
    """Opening of covers: 0 is closed, 100 is open."""
    level: int | None = Field(default=None, ge=0, le=100)
    """Step of a fan or another device with numbered steps."""
    mode: str | None = Field(default=None, max_length=100)
    """English name, such as `cool` or `sleep`; a mode that the grammar does not know keeps its own word."""
    channel: str | None = Field(default=None, max_length=100)
    """Input or channel, as it was said."""
    at: str | None = Field(default=None, pattern=r"^([01]\d|2[0-3]):[0-5]\d$")
    """Time of day to act at, `HH:MM`."""
    after_s: float | None = Field(default=None, ge=0, le=31_536_000)
    """Seconds to wait before acting."""
    for_s: float | None = Field(default=None, ge=0, le=31_536_000)
    """Seconds that the action lasts."""
    count: int | None = Field(default=None, ge=1, le=10_000)
    """Number of devices, with the quantifier `count`."""


class QueryIR(Message):
    """One command of a sentence."""

    action: str = Field(default="", max_length=100)
    """Action in its usual words, in the language of the sentence: `打开`, `set brightness`. Empty if it names none."""
    action_code: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9_]{0,49}$")
    """The same action for programs: `turn_on`, `set_brightness`, `query_state`."""
    name_hint: str | None = Field(default=None, max_length=200)
    """Name of a device as the sentence says it; the home's spelling if it has one."""
    type_hint: str | None = Field(default=None, max_length=64)
    """Type of devices, such as `light`. Absent if a name says it."""
    scope_include: tuple[str, ...] = Field(default=(), max_length=50)
    """Rooms in which the devices are."""
    scope_exclude: tuple[str, ...] = Field(default=(), max_length=50)
    """Rooms, names or types that are left out, as the sentence says them."""
    quantifier: Quantifier | None = None
    references: tuple[Reference, ...] = Field(default=(), max_length=5)
    arguments: QueryArguments = QueryArguments()
    confidence: float = Field(ge=0.0, le=1.0)
    """Confidence of the parser that all fields are right."""
