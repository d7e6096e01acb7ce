"""Severity of log records."""

import re
from enum import IntEnum
from functools import lru_cache
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


@lru_cache(maxsize=256)
def parse_level(text: str) -> Severity:
    """Return the severity that a word of a header names."""
    word = text.strip(" []<>():|")
    return SEVERITIES.get(word.lower()) or _LETTERS.get(
        word[:1] if word[1:].isdigit() or len(word) == 1 else "", Severity.UNKNOWN
    )


_ERROR_WORDS: Final = re.compile(
    r"\b(?:errors?|exceptions?|fatal|panic(?:ked)?|crash(?:ed)?|corrupt(?:ed|ion)?|segfault|traceback|out of memory"
    r"|break-?in|attack)\b|(?<=[a-z])(?:Error|Exception)\b|错误|異常|异常|崩溃",
    re.IGNORECASE,
)
_WARNING_WORDS: Final = re.compile(
    r"\b(?:fail(?:ed|ure|ures|s|ing)?|warn(?:ing)?|denied|refused|rejected|forbidden|unauthori[sz]ed|time(?:d)?[ -]?out"
    r"|abort(?:ed|ing)?|abnormal(?:ly)?|invalid|illegal|unable|cannot|could not|can't|unreachable|dropped|violation"
    r"|unexpected(?:ly)?|not found|no such|too many|exceeded|lost|broken)\b|失败|超时|拒绝|无法|警告",
    re.IGNORECASE,
)
_STATUS: Final = re.compile(r"(?:\bHTTP/\d(?:\.\d)?\"? |\bstatus(?:[ _]?code)?[\"']?[=: ]+)([45])\d\d\b", re.IGNORECASE)


_RULERS: Final = frozenset("=-_*#!~+")
_ROW: Final = 4
"""Fewest equal characters that are a row."""


def judge_message(message: str) -> Severity:
    """Return the severity of a record without level, by words of failure and HTTP status; a headline has none."""
    if _is_headline(message):
        return Severity.UNKNOWN
    if _ERROR_WORDS.search(message):
        return Severity.ERROR
    status = _STATUS.search(message)
    if status is not None:
        return Severity.ERROR if status[1] == "5" else Severity.WARNING
    return Severity.WARNING if _WARNING_WORDS.search(message) else Severity.UNKNOWN


def _is_headline(message: str) -> bool:
    """Return whether a row of punctuation stands at the start or the end, as in `==== ERRORS ====`."""
    text = message.strip()
    return any(row[:1] in _RULERS and row == row[:1] * _ROW for row in (text[:_ROW], text[-_ROW:]))
