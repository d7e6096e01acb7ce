"""Files of a project: where they may lie, and the port to where they do.

A path is relative to the project's own folder. No path leads out of it, whatever lies there: see the adapter.
"""

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

from skillbus.agent.domain.errors import ArgumentsInvalidError

MAX_PATH: Final = 1_024
"""Characters."""
MAX_DEPTH: Final = 16
MAX_NAME_BYTES: Final = 255
"""NAME_MAX of Linux."""

Parts: TypeAlias = tuple[str, ...]
"""Names from the project's folder down; empty for the folder itself."""


class EntryKind(StrEnum):
    """What lies in a folder."""

    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"
    """A link, a device, a socket: never opened."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a folder."""

    name: str
    kind: EntryKind
    size_bytes: int
    """0 for what is no file."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Bytes of a file from `offset` on, and how long it is."""

    data: bytes
    offset: int
    size_bytes: int


class ProjectFiles(Protocol):
    """Files of each project, apart from those of all others. Its methods raise ToolFailedError with the reason."""

    async def read(self, project: str, parts: Parts, offset: int, limit_bytes: int) -> Excerpt:
        """At most `limit_bytes` of a file."""
        ...

    async def write(self, project: str, parts: Parts, data: bytes, *, replace: bool) -> bool:
        """The whole file or nothing; folders on the way are made. Whether there was one before."""
        ...

    async def entries(self, project: str, parts: Parts) -> tuple[Entry, ...]:
        """What lies in a folder, by name; nothing in that of a project that never wrote."""
        ...


def parts_of(path: str) -> Parts:
    """The names of a path, which is written with `/`.

    Raises:
        ArgumentsInvalidError: It leads elsewhere, or no file can have it.
    """
    if path.startswith("/"):
        raise _no_path("is absolute: write it from the project's own folder, like notes/today.md")
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if ".." in parts:
        raise _no_path("leads out of its folder: leave out `..`")
    if "\\" in path or any(unicodedata.category(char) in {"Cc", "Cs"} for char in path):
        raise _no_path("holds a backslash or a control character: write names with `/` between them")
    if len(parts) > MAX_DEPTH or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise _no_path(f"is too long: at most {MAX_DEPTH} names of {MAX_NAME_BYTES} bytes")
    return parts


def file_parts_of(path: str) -> Parts:
    """The names of a file's path. Raises ArgumentsInvalidError."""
    parts = parts_of(path)
    if not parts or path.endswith("/"):
        raise _no_path("names a folder: name a file")
    return parts


def _no_path(reason: str) -> ArgumentsInvalidError:
    return ArgumentsInvalidError(reason, "$.path")
