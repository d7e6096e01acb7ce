"""Files of a project: rules for their paths, and the interface to the storage.

A path is relative to the project's folder. No path leads out of it, not even through links: see the adapter.
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
"""Names below the project's folder; empty for the folder itself."""


class FileKind(StrEnum):
    """Kind of an entry in a folder."""

    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"
    """A link, device or socket, which is never opened."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """An entry in a folder."""

    name: str
    kind: FileKind
    size_bytes: int
    """0 for anything but a file."""


@dataclass(frozen=True, slots=True)
class FileExcerpt:
    """Bytes of a file from `offset` on, and the size of the file."""

    data: bytes
    offset: int
    size_bytes: int


class ProjectFiles(Protocol):
    """Storage of files, separate for each project. Its methods raise BuiltinFailedError with the reason."""

    async def read_file(self, project: str, parts: Parts, offset: int, limit_bytes: int) -> FileExcerpt:
        """Return at most `limit_bytes` of a file."""
        ...

    async def write_file(self, project: str, parts: Parts, data: bytes, *, replace: bool) -> bool:
        """Write a file atomically and create its folders. Return True if it replaced a file."""
        ...

    async def list_entries(self, project: str, parts: Parts) -> tuple[FileEntry, ...]:
        """Return the entries of a folder, ordered by name; none for a project that never wrote a file."""
        ...


def parse_path(path: str) -> Parts:
    """Split a path with `/` into names.

    Raises:
        ArgumentsInvalidError: The path leads out of the folder, or no file can have it.
    """
    if path.startswith("/"):
        raise _refuse_path("is absolute: write it from the project's own folder, like notes/today.md")
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if ".." in parts:
        raise _refuse_path("leads out of its folder: leave out `..`")
    if "\\" in path or any(unicodedata.category(char) in {"Cc", "Cs"} for char in path):
        raise _refuse_path("holds a backslash or a control character: write names with `/` between them")
    if len(parts) > MAX_DEPTH or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise _refuse_path(f"is too long: at most {MAX_DEPTH} names of {MAX_NAME_BYTES} bytes")
    return parts


def parse_file_path(path: str) -> Parts:
    """Split the path of a file into names. Raises ArgumentsInvalidError."""
    parts = parse_path(path)
    if not parts or path.endswith("/"):
        raise _refuse_path("names a folder: name a file")
    return parts


def _refuse_path(reason: str) -> ArgumentsInvalidError:
    return ArgumentsInvalidError(reason, "$.path")
