"""Normalized requirements of a script: equal requirements have equal text."""

import re
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.indexer.skill_record import Runtime

REQUIREMENTS_MAX: Final = 256
"""Most requirements of a script; real scripts have fewer than fifty."""
_SHOWN: Final = 200
_USER_INFO: Final = re.compile(r"//[^/\s@]*@")


@dataclass(frozen=True, slots=True)
class Requirements:
    """Requirements of one script."""

    runtime: Runtime
    listed: str
    """Text of a `requirements.txt` or a `package.json`."""
    lock: str = ""
    """Text of a `package-lock.json`; empty for none."""
    python: str = ""
    """Python versions that the script supports, in the form of `requires-python`."""


def excerpt(text: str) -> str:
    """Return text of a skill or a program for a message: one line, shortened, without credentials in URLs."""
    flat = strip_user_info(" ".join(text.split()))
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]}…"


def strip_user_info(text: str) -> str:
    """Return `text` without user and password in its URLs."""
    return _USER_INFO.sub("//", text)
