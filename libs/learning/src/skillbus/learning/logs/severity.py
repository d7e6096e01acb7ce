"""Severity of log records."""

from enum import IntEnum
from typing import Final


class Severity(IntEnum):
    """Severity of a record, in the order of syslog levels turned around."""

    UNKNOWN = 0
    DEBUG = 1
    INFO = 2
    WARNING = 3
    ERROR = 4
    FATAL = 5


_LEVELS: Final = {
    Severity.DEBUG: ("trace", "debug", "verbose", "fine", "finer", "finest", "dbg", "trc"),
    Severity.INFO: ("info", "information", "informational", "notice", "note", "config", "inf"),
    Severity.WARNING: ("warn", "warning", "wrn"),
    Severity.ERROR: ("error", "err", "failure", "severe", "eror"),
    Severity.FATAL: ("fatal", "critical", "crit", "alert", "emerg", "emergency", "panic", "ftl"),
}
_LETTERS: Final = {
    "T": Severity.DEBUG,
    "V": Severity.DEBUG,
    "D": Severity.DEBUG,
    "I": Severity.INFO,
    "N": Severity.INFO,
    "W": Severity.WARNING,
    "E": Severity.ERROR,
    "F": Severity.FATAL,
    "C": Severity.FATAL,
    "A": Severity.FATAL,
}
SEVERITIES: Final = {word: severity for severity, words in _LEVELS.items() for word in words}
LEVEL_WORDS: Final = "(?:(?i:" + "|".join(sorted(SEVERITIES, key=len, reverse=True)) + ")|[TVDIWEFC]|[IWEF]\\d{4})"
"""Alternatives of a pattern: words, the single letters of Android, and the letter with month and day of glog."""


def parse_level(text: str) -> Severity:
    """Return the severity that a word of a header names."""
    word = text.strip(" []<>():|")
    return SEVERITIES.get(word.lower()) or _LETTERS.get(
        word[:1] if word[1:].isdigit() or len(word) == 1 else "", Severity.UNKNOWN
    )
