"""What `install` sends: a zip as it is, a folder packed in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from skillbus.cli.errors import LocalFileError, NotASkillError
from skillbus.common.archive import ArchiveError, pack_directory

_LEFT_OUT: Final = (".git", ".vectorized")
"""Not part of a skill: its history, and the mark that it was indexed."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package to send, under the name it is sent by."""

    filename: str
    content: bytes | BinaryIO


@contextmanager
def open_package(path: Path) -> Iterator[Package]:
    """The package at a path: a .zip file or a skill's folder.

    Raises:
        LocalFileError: it cannot be read.
        NotASkillError: it is a folder without a SKILL.md.
    """
    try:
        if path.is_dir():
            yield _packed(path)
        else:
            with path.open("rb") as file:
                yield Package(path.name, file)
    except OSError as error:
        raise LocalFileError(f"{path}: {error.strerror or error}", "Check the path and its permissions.") from error


def _packed(folder: Path) -> Package:
    if not any(child.name.lower() == "skill.md" for child in folder.iterdir()):
        several = any(folder.glob("*/SKILL.md"))
        raise NotASkillError(
            f"{folder} has no SKILL.md",
            f"It holds skills, name each of them: {folder}/*" if several else "A skill is a folder with a SKILL.md.",
        )
    try:
        return Package(f"{folder.resolve().name}.zip", pack_directory(folder, skip=_LEFT_OUT))
    except ArchiveError as error:
        raise LocalFileError(f"{folder} cannot be packed: {error}", "Correct or move that file.") from error
