"""The files of a skill, by their path inside it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file of a skill."""

    path: str
    size_bytes: int
    executable: bool = False


@dataclass(frozen=True, slots=True)
class PackageFiles:
    """What is in a skill, and how to read it. Paths have forward slashes and no prefix."""

    by_path: Mapping[str, PackageFile]
    read: Callable[[str], bytes]

    @property
    def paths(self) -> frozenset[str]:
        """Every path."""
        return frozenset(self.by_path)
