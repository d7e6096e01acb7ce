"""Packages of skills: .zip files and folders of this machine, and skills that were fetched from a git repository."""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import typer

from skillbus.cli.errors import CliError, LocalFileError, NotASkillError
from skillbus.cli.skills.git_source import GIT_PREFIX, GitSource, fetch_skills
from skillbus.common.archive import ArchiveError, pack_directory

PackageForm = dict[str, tuple[str, bytes | BinaryIO, str]]
"""Form with a package: its file name, content and media type."""

_LEFT_OUT: Final = (".git", ".vectorized")
"""Not part of a skill: its history, and the mark of an earlier indexing."""
_NEVER_SKILLS: Final = frozenset({"node_modules", "__pycache__"})
_FOLDERS: Final = 10_000
"""Most folders that are searched for skills."""
_SKILL_FILE: Final = "skill.md"
_ZIP: Final = "application/zip"


@dataclass(frozen=True, slots=True)
class PackageToInstall:
    """A package to install, or the reason why it cannot be."""

    name: str
    """Path or address, for people."""
    path: Path
    error: CliError | None = None


@asynccontextmanager
async def open_packages(words: Sequence[str]) -> AsyncIterator[list[PackageToInstall]]:
    """Yield the packages of paths and addresses. What is fetched is removed when the context is left.

    Raises:
        typer.BadParameter: A path does not exist, or an address pins no commit.
        GitError: A repository cannot be fetched.
        LocalFileError: A folder cannot be read, or what is fetched cannot be written.
    """
    sources = [GitSource.parse(word) if word.startswith(GIT_PREFIX) else _check_path(word) for word in words]
    with tempfile.TemporaryDirectory(prefix="skillbus-", ignore_cleanup_errors=True) as place:
        packages: list[PackageToInstall] = []
        for number, source in enumerate(sources):
            if isinstance(source, Path):
                packages += [PackageToInstall(str(path), path) for path in list_skill_folders(source) or [source]]
                continue
            folder = Path(place, str(number))
            try:
                folder.mkdir()
                fetched = await fetch_skills(source, folder)
            except OSError as error:
                raise LocalFileError.from_os_error(source.name, error) from error
            advice = "Clone the repository yourself, put the file itself there, and install the folder."
            for skill in fetched:
                problem = NotASkillError(skill.problem, advice) if skill.problem else None
                packages.append(PackageToInstall(skill.name, skill.folder, problem))
        yield packages


def list_skill_folders(folder: Path) -> list[Path]:
    """Return the skills of a folder by path: the folder itself, or those at any depth that lie in no other skill.

    Hidden folders are left out. A link to a folder counts if it leads to a skill.

    Raises:
        LocalFileError: A folder cannot be read, or there are too many.
    """
    found: list[Path] = []
    waiting, seen = [folder] if folder.is_dir() else [], 0
    while waiting:
        place = waiting.pop()
        seen += 1
        if seen > _FOLDERS:
            raise LocalFileError(f"{folder} has more than {_FOLDERS} folders", "Name the folder of the skills in it.")
        try:
            with os.scandir(place) as entries:
                children = list(entries)
        except OSError as error:
            raise LocalFileError.from_os_error(place, error) from error
        if any(child.name.lower() == _SKILL_FILE for child in children):
            found.append(place)
        elif place == folder or not place.is_symlink():
            waiting += [
                Path(child.path)
                for child in children
                if child.is_dir() and not child.name.startswith(".") and child.name not in _NEVER_SKILLS
            ]
    return sorted(found)


@contextmanager
def open_package(path: Path) -> Iterator[PackageForm]:
    """Open the package at a path, a .zip file or a folder with a SKILL.md, and yield the form to upload.

    Raises:
        LocalFileError: It cannot be read or packed.
        NotASkillError: It is a folder without a SKILL.md.
    """
    try:
        if path.is_dir():
            yield {"package": (f"{path.resolve().name}.zip", _pack_folder(path), _ZIP)}
        else:
            with path.open("rb") as file:
                yield {"package": (path.name, file, _ZIP)}
    except OSError as error:
        raise LocalFileError.from_os_error(path, error) from error


def _check_path(word: str) -> Path:
    path = Path(word)
    if "://" in word:
        raise typer.BadParameter(f"{word} is not a path. A git repository is {GIT_PREFIX}https://…@COMMIT")
    try:
        path.stat()
    except OSError as error:
        raise typer.BadParameter(f"{word}: {error.strerror}") from error
    return path


def _pack_folder(folder: Path) -> bytes:
    if not any(child.name.lower() == _SKILL_FILE for child in folder.iterdir()):
        raise NotASkillError(f"{folder} has no SKILL.md", "A skill is a folder with a SKILL.md.")
    try:
        return pack_directory(folder, skip=_LEFT_OUT)
    except ArchiveError as error:
        raise LocalFileError(f"{folder} cannot be packed: {error}", "Correct or move that file.") from error
