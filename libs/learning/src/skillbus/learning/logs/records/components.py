"""Names of components: what a header says about the origin of a record, without process, thread and line."""

import re
from functools import lru_cache
from typing import Final

from skillbus.contracts.scope import SCOPE_CHARACTERS
from skillbus.learning.redaction import redact_text

_EDGE: Final = " \t[]()<>:|-–—"
_ENDING: Final = re.compile(r"(?:\[[^\]]*\]|\([^)]*\)|[@:#]\d+|\$.*|\s+\*\d+)+$")
_LONG_NUMBER: Final = re.compile(r"\d{4,}")
"""Process, thread or port: no part of a name, but each would be a new text to examine."""
_NAME: Final = re.compile(r"[A-Za-z][\w.-]*[A-Za-z][\w.-]*")


def name_component(text: str) -> str:
    """Return the name of a component, or an empty text: `sshd` of `sshd(pam_unix)[24200]:`.

    Of a thread, class and line, the class is taken: `Listener` of `[/10.0.0.1:3888:Listener$Worker@493]`.
    """
    return _name_shortened(_LONG_NUMBER.sub("0", text))


@lru_cache(maxsize=4096)
def _name_shortened(text: str) -> str:
    inner = text.strip().rstrip(":|- ").lstrip("- ")
    inner = inner if "[" in inner else inner.rstrip("]")
    if inner[:1] in {"[", "(", "<"}:
        inner = inner.strip(_EDGE)
    inner = _ENDING.sub("", inner)
    last = re.split(r"[:/\s]+", inner)[-1]
    name = _NAME.fullmatch(last)
    return redact_text(name[0])[:80] if name else ""


def write_scope(component: str) -> str:
    """Return the scope of a component: `module:NAME`, or the empty scope without one."""
    return f"module:{component}"[:SCOPE_CHARACTERS] if component and "<" not in component else ""
