"""Characters of a text: Chinese ones, and those that people cannot see."""

import re
import unicodedata
from typing import Final

HAN: Final = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Ranges of Chinese characters, for a character class of a regular expression: `[{HAN}]`."""
HAN_CHARACTER: Final = re.compile(f"[{HAN}]")

_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of control, format (bidi overrides among them), surrogate and line-separating characters."""
_HIDDEN: Final = re.compile(
    "["
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # soft hyphen, joiners, fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # zero width, direction, invisible operators
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef"  # tags, which mirror ASCII; variation selectors, which carry bytes
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f"  # control characters
    "]"
)
_LEGITIMATE: Final = re.compile(
    "(?<=[\u00a9-\U0001faff])\u200d(?=[\u00a9-\U0001faff])"  # joins emoji, and letters of Indic scripts
    "|(?<=[\u0590-\u08ff])[\u200c\u200e\u200f](?=[\\s\u0590-\u08ff])"  # used by Persian, Arabic and Hebrew spelling
    "|(?<=[\u3400-\u9fff])[\U000e0100-\U000e01ef]"  # selects a form of an ideograph
    "|\\A\ufeff"  # a byte order mark
)


def has_invisible(name: str) -> bool:
    """Return True if a name holds any character without a visible form. Names need none, not even line breaks."""
    return not name.isprintable() and any(
        unicodedata.category(character) in _INVISIBLE_CATEGORIES for character in name
    )


def find_hidden(text: str) -> list[str]:
    """Return the characters of a text that a model reads and people do not see.

    Line breaks and tabs are not hidden, nor are joiners and variation selectors where scripts and emoji need them.
    """
    if not _may_hold_hidden(text) or not _HIDDEN.search(text):
        return []
    return _HIDDEN.findall(_LEGITIMATE.sub("", text))


def remove_hidden(text: str) -> str:
    """Return the text without hidden characters, legitimate ones included."""
    return _HIDDEN.sub("", text) if _may_hold_hidden(text) else text


def _may_hold_hidden(text: str) -> bool:
    return not (text.isascii() and text.isprintable())
