"""Classes of failures, by the words of their messages."""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class FailureClass:
    """Class of failures, by the words of their messages."""

    pattern: re.Pattern[str]
    tag: str
    phrase: str
    type: str
    """Type of knowledge."""
    joined: bool = False
    """True if all such messages of one component are one incident."""


_CLASSES: Final = tuple(
    FailureClass(re.compile(pattern, re.IGNORECASE), tag, phrase, type_, joined=tag == "authentication")
    for pattern, tag, phrase, type_ in (
        (
            r"authenti|\bauth\b|password|log-?in fail|invalid user|break-?in|brute|credential|kerberos",
            "authentication",
            "Failed logins, perhaps an attack by trying passwords",
            "module_context",
        ),
        (
            r"forbidden|denied|not allowed|not permitted|by rule|polic(?:y|ies)|unauthori[sz]ed|access control|拒绝",
            "access-policy",
            "Access refused by a rule",
            "business_rule",
        ),
        (
            r"out of memory|oom|no space|disk full|quota|too many open",
            "resources",
            "Resources exhausted",
            "module_context",
        ),
        (r"time(?:d)?[ -]?out|超时", "timeout", "Timeouts", "module_context"),
        (
            r"connect|socket|channel|unreachable|broken pipe|reset by peer|network|disconnect",
            "connection",
            "Broken connections",
            "module_context",
        ),
        (r"exception|traceback|panic|crash|segfault", "exception", "Exceptions", "module_context"),
    )
)
_OTHER: Final = FailureClass(re.compile(""), "failure", "Failures", "module_context")


_FIELD: Final = re.compile(r"[\w.-]+=\S*")
"""Field such as `password=<*>`: its name says what a record holds, not what failed."""


def classify_failure(text: str) -> FailureClass:
    """Return the first class with a word in the text, apart from fields."""
    words = _FIELD.sub(" ", text)
    return next((it for it in _CLASSES if it.pattern.search(words)), _OTHER)
