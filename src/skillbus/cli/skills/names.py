"""Names of skills as they stand on a command line."""

import re
from typing import Final

import typer

NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
"""As `skillbus.contracts.message.SkillName`, which is slow to import; a test compares the two."""
NAME_CHARS_MAX: Final = 64


def checked_name(name: str) -> str:
    """The name, if a skill can have it; a skill's id, as a search shows it, names it too."""
    name = name.removeprefix("skill:")
    if not NAME.fullmatch(name) or len(name) > NAME_CHARS_MAX:
        raise typer.BadParameter(f"{name!r} is no skill's name: those are a-z, 0-9 and single hyphens")
    return name
