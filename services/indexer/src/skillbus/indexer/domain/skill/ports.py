"""Ports to where skills lie: packages in the object store, unpacked folders on this machine's disk."""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from skillbus.common.archive import Archive
from skillbus.contracts.indexer.skill_record import SkillFinding
from skillbus.contracts.message import Content
from skillbus.indexer.domain.catalogue.skill import PackageKey, SkillRecord
from skillbus.indexer.domain.package.skill_package import SkillPackage

Outcome = Literal["installed", "updated", "unchanged"]
"""What became of a package."""
Change = Literal["installed", "updated", "indexed"]


class Packages(Protocol):
    """The archives of installed skills, those of their history too."""

    async def put(self, key: PackageKey, packed: bytes) -> None:
        """Keep the files of a skill, packed."""
        ...

    async def get(self, key: PackageKey) -> bytes:
        """A package. Raises RequestError, `not_found` among others."""
        ...

    async def delete(self, key: PackageKey) -> None:
        """Let go of a package. That there is none is fine."""
        ...

    async def missing(self, keys: Collection[PackageKey]) -> frozenset[PackageKey]:
        """Those of them that are not there."""
        ...

    async def sweep(self, kept: Collection[PackageKey]) -> int:
        """Let go of packages that are none of these, and that are no longer on their way in; tells how many."""
        ...


@dataclass(frozen=True, slots=True)
class Staged:
    """A skill's files, unpacked beside the folders that are in use."""

    path: Path
    packed: bytes
    """The files packed again: the same files give the same bytes."""
    content_digest: str
    """SHA-256 of `packed`, hex."""


@dataclass(frozen=True, slots=True)
class FolderState:
    """A folder that may hold a skill, as it is on disk."""

    path: Path
    content_digest: str
    changed_at: datetime
    """When the folder came to be what it is."""
    installed_digest: str | None
    """Content digest that `.vectorized` tells; None without that file."""
    skill_md_bytes: int | None
    """Size of SKILL.md that `.vectorized` tells."""
    skill_hash: str | None


class SkillFolders(Protocol):
    """Unpacked skills on this machine. All methods block; call them from a thread."""

    def stage(self, archive: Archive, package: SkillPackage) -> Staged:
        """Unpack into a staging folder. Raises PackageError when a file is damaged."""
        ...

    def swap_in(self, staged: Staged, record: SkillRecord) -> None:
        """Put the staged files in the place of what the skill's folder held."""
        ...

    def holds(self, record: SkillRecord) -> bool:
        """Whether the skill's folder has the files that the record tells, and no others."""
        ...

    def discard(self, staged: Staged) -> None:
        """Remove a staging folder; one that was swapped in is gone already."""
        ...

    def mark_indexed(self, record: SkillRecord) -> None:
        """Write `.vectorized`, if the folder holds what the record tells."""
        ...

    def remove(self, project: str, name: str) -> None:
        """Remove a skill's folder. That there is none is fine."""
        ...

    def candidates(self) -> Sequence[Path]:
        """Folders of all projects that a skill may lie in."""
        ...

    def state(self, folder: Path) -> FolderState | None:
        """What is in a folder; None when it is gone or empty. Raises PackageError when it cannot be packed."""
        ...

    def project_of(self, folder: Path) -> str:
        """The project whose skills lie beside this folder."""
        ...

    def path_of(self, project: str, name: str) -> Path:
        """Where a skill's folder is."""
        ...


class Announcer(Protocol):
    """Tells the rest of the system what happened. Methods return when it cannot be lost any more."""

    async def changed(self, change: Change, record: SkillRecord) -> None:
        """A skill was installed, updated or indexed."""
        ...

    async def removed(self, record: SkillRecord) -> None:
        """A skill was uninstalled."""
        ...

    async def taken(self, source: str, outcome: Outcome, record: SkillRecord) -> None:
        """An upload was dealt with."""
        ...

    async def rejected(self, project: str, source: str, errors: tuple[SkillFinding, ...], *, once: bool) -> None:
        """An upload or a folder is not a valid skill; with `once`, what was said of it just now is not said again."""
        ...


class IncomingPackages(Protocol):
    """Packages on their way in."""

    def opened(self, package: Content) -> AbstractAsyncContextManager[bytes]:
        """The bytes of a package. What came through the object store is taken out of it when the context is left.

        Raises:
            RequestError: `not_found`, `payload_too_large`, or `invalid_request` when the digest is another.
        """
        ...
