"""Skills of a git repository at one pinned commit.

Nothing is checked out: the files are written from the objects of the commit, so that no hook, filter, submodule or link
of the repository has an effect.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Self
from urllib.parse import urlsplit

import typer

from skillbus.cli.errors import GitError
from skillbus.cli.output import format_size
from skillbus.cli.skills.git_repository import FETCH_BYTES, SCHEMES, GitRepository, TreeEntry, is_plain_path

GIT_PREFIX: Final = "git+"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}", re.IGNORECASE)
_LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_NOT_FETCHED: Final = {"160000": "a submodule", "120000": "a symbolic link"}
"""Kinds of entries that have no content of their own, by mode."""
_EXECUTABLE: Final = "100755"
_SKILL_FILE: Final = "skill.md"


@dataclass(frozen=True, slots=True)
class GitSource:
    """A commit of a repository, or a folder in it."""

    url: str
    commit: str
    folder: str = ""

    @classmethod
    def parse(cls, word: str) -> Self:
        """Parse `git+URL@COMMIT#FOLDER`.

        Raises:
            typer.BadParameter: It is something else, names no commit, or contains a password.
        """
        address, _, folder = word.removeprefix(GIT_PREFIX).partition("#")
        before, at, after = address.rpartition("@")
        url, commit = (before, after) if at and "/" in before and "/" not in after else (address, "")
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not (parts.path if parts.scheme == "file" else parts.hostname):
            raise typer.BadParameter(f"{word} is not an address like {GIT_PREFIX}https://example.com/skills.git@COMMIT")
        if parts.password or (parts.username and parts.scheme != "ssh"):
            raise typer.BadParameter("a key does not belong into an address: git asks your credential helper for it")
        if not _COMMIT.fullmatch(commit):
            raise typer.BadParameter(
                f"{word} pins no commit, and what it installs could change. Write {GIT_PREFIX}{url}@COMMIT with all 40 "
                f"digits of a commit. The newest one: git ls-remote {url} HEAD"
            )
        folder = folder.removeprefix("subdirectory=").strip("/")
        if folder and not is_plain_path(folder):
            raise typer.BadParameter(f"{folder!r} is not a folder of a repository")
        return cls(url, commit.lower(), folder)

    @property
    def name(self) -> str:
        """Name of the repository with the beginning of the commit."""
        return f"{PurePosixPath(urlsplit(self.url).path).name.removesuffix('.git')}@{self.commit[:7]}"


@dataclass(slots=True)
class FetchedSkill:
    """Skill of a commit, written to a folder."""

    name: str
    """Repository, commit and path of the skill, for people."""
    path: PurePosixPath
    """Path of the skill in the fetched tree."""
    folder: Path
    problem: str = ""
    """Reason why it cannot be installed."""

    def add_file(self, entry: TreeEntry, content: bytes) -> None:
        """Write a file of the skill.

        Raises:
            OSError: It cannot be written.
        """
        path = entry.path.relative_to(self.path)
        if content.startswith(_LFS_POINTER):
            self.problem = f"{path} lies in Git LFS, which is not fetched"
            return
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(content)
        if entry.mode == _EXECUTABLE:
            target.chmod(0o755)


async def fetch_skills(source: GitSource, place: Path) -> list[FetchedSkill]:
    """Fetch a commit into an empty folder, and write each of its skills to a folder below it.

    Raises:
        GitError: It cannot be fetched, has no skill, or its skills are too large.
        OSError: A file cannot be written.
    """
    repository = GitRepository(place / "repository")
    repository.place.mkdir()
    await repository.fetch_commit(source.url, source.commit)
    entries = await repository.list_files(f"{source.commit}:{source.folder}")
    skills = _choose_skills(source, entries, place / "skills")
    if not skills:
        where = f"folder {source.folder}" if source.folder else "commit"
        raise GitError(f"the {where} has no SKILL.md", "A skill is a folder with a SKILL.md.")
    files: list[TreeEntry] = []
    for entry in entries:
        if (skill := _find_skill(entry.path, skills)) is None:
            continue
        if kind := _NOT_FETCHED.get(entry.mode):
            skill.problem = f"{entry.path.relative_to(skill.path)} is {kind}, which is not fetched"
        else:
            files.append(entry)
    # One content can be many files, so that a small download can be large as files.
    if (size := sum(entry.size_bytes for entry in files)) > FETCH_BYTES:
        raise GitError(f"its skills have {format_size(size)}", f"At most {format_size(FETCH_BYTES)} are fetched.")
    async for entry, content in repository.read_files(files):
        skill = _find_skill(entry.path, skills)
        if skill is not None and not skill.problem:
            skill.add_file(entry, content)
    return list(skills.values())


def _choose_skills(source: GitSource, entries: Iterable[TreeEntry], place: Path) -> dict[PurePosixPath, FetchedSkill]:
    """Return the folders with a SKILL.md that lie in no other skill, by path."""
    skills: dict[PurePosixPath, FetchedSkill] = {}
    for path in sorted({entry.path.parent for entry in entries if entry.path.name.lower() == _SKILL_FILE}):
        if _find_skill(path, skills) is None:
            shown = (source.name, source.folder, path.as_posix() if path.parts else "")
            folder = path.name or PurePosixPath(source.folder).name or source.name.partition("@")[0]
            skills[path] = FetchedSkill("/".join(filter(None, shown)), path, place / str(len(skills)) / folder)
    return skills


def _find_skill(path: PurePosixPath, skills: Mapping[PurePosixPath, FetchedSkill]) -> FetchedSkill | None:
    return next((skills[parent] for parent in path.parents if parent in skills), None)
