"""Packages to upload: a .zip file as it is, or a folder packed in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from skillbus.cli.errors import LocalFileError, NotASkillError
from skillbus.common.archive import ArchiveError, pack_directory

_LEFT_OUT: Final = (".git", ".vectorized")
"""Not part of a skill: its history, and the mark of an earlier indexing."""


@dataclass(frozen=True, slots=True)
class PackageUpload:
    """A package and the file name to upload it under."""

    filename: str
    content: bytes | BinaryIO


@contextmanager
def open_package(path: Path) -> Iterator[PackageUpload]:
    """Open the package at a path: a .zip file, or a folder with a SKILL.md.

    Raises:
        LocalFileError: It cannot be read or packed.
        NotASkillError: It is a folder without a SKILL.md.
    """
    try:
        if path.is_dir():
            yield _pack_folder(path)
        else:
            with path.open("rb") as file:
                yield PackageUpload(path.name, file)
    except OSError as error:
        raise LocalFileError.from_os_error(path, error) from error


def _pack_folder(folder: Path) -> PackageUpload:
    if not any(child.name.lower() == "skill.md" for child in folder.iterdir()):
        holds_skills = any(folder.glob("*/SKILL.md"))
        advice = f"It holds skills: give {folder}/*" if holds_skills else "A skill is a folder with a SKILL.md."
        raise NotASkillError(f"{folder} has no SKILL.md", advice)
    try:
        return PackageUpload(f"{folder.resolve().name}.zip", pack_directory(folder, skip=_LEFT_OUT))
    except ArchiveError as error:
        raise LocalFileError(f"{folder} cannot be packed: {error}", "Correct or move that file.") from error
