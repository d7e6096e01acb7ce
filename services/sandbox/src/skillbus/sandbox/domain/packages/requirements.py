"""Requirements as they are built from: checked, and written so that equal ones are the same text."""

import re
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.indexer.skill_record import Runtime

REQUIREMENTS_MAX: Final = 256
"""Of a script; real ones have fewer than fifty."""
_SHOWN: Final = 200
_USER_INFO: Final = re.compile(r"//[^/\s@]*@")


@dataclass(frozen=True, slots=True)
class Requirements:
    """What is to be had for a script."""

    runtime: Runtime
    listed: str
    """The text of a `requirements.txt` or of a `package.json`."""
    lock: str = ""
    """The text of a `package-lock.json`; empty for none."""
    python: str = ""
    """Versions of Python that the script is for, as in `requires-python`."""


def shown(text: str) -> str:
    """A piece of a skill's or a program's text as it may be told: cut, on one line, without what stands before an @."""
    flat = without_user_info(" ".join(text.split()))
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]}…"


def without_user_info(text: str) -> str:
    """`text` with user and password taken out of its URLs."""
    return _USER_INFO.sub("//", text)
