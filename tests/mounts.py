"""Mounts of this machine that a sandbox may have left behind."""

from pathlib import Path
from typing import Final

_WORDS: Final = ("newroot", "oldroot", "skillbus", "pytest-")
"""Words in the mount table line of a sandbox: names that bubblewrap uses, folders of skillbus, folders of a test."""


def list_sandbox_mounts() -> set[str]:
    """Return the lines of the mount table that a sandbox may have added; other processes add and remove lines too."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in lines if any(word in line for word in _WORDS)}
