"""Text from elsewhere, made harmless for a terminal."""

import unicodedata

_KEPT = frozenset("\n\t")
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def plain(text: str) -> str:
    """The text with control characters (escape sequences begin with one) and bidirectional controls as `�`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(char) for char in text.replace("\r\n", "\n"))


def plain_line(text: str) -> str:
    """The same on one line."""
    return " ".join(plain(text).split())


def _shown(char: str) -> str:
    if char in _KEPT:
        return char
    return "�" if char in _BIDI or unicodedata.category(char) in {"Cc", "Cs"} else char


def size(size_bytes: int) -> str:
    """A size for people: `1.5 kB`."""
    amount, unit = float(size_bytes), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
