"""Ports of the life of a skill: packages, folders on this machine's disk, and announcements."""

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

InstallOutcome = Literal["installed", "updated", "unchanged"]
SkillChangeKind = Literal["installed", "updated", "indexed"]


class PackageStore(Protocol):
    """Archives of installed skills, including those of their history."""

    async def store_package(self, key: PackageKey, packed: bytes) -> None:
        """Store the packed files of a skill."""

    async def load_package(self, key: PackageKey) -> bytes:
        """Return a package. Raises RequestError, with `not_found` if it is missing."""

    async def delete_package(self, key: PackageKey) -> None:
        """Delete a package. A missing one is fine."""

    async def find_missing(self, keys: Collection[PackageKey]) -> frozenset[PackageKey]:
        """Return the keys that have no package."""

    async def delete_unclaimed(self, claimed: Collection[PackageKey]) -> int:
        """Delete packages that are not claimed and not part of an install in flight. Return their number."""


class IncomingPackages(Protocol):
    """Packages that come with requests."""

    def open_content(self, package: Content) -> AbstractAsyncContextManager[bytes]:
        """Open the bytes of a package. On exit a package in the object store is deleted there.

        Raises RequestError: `not_found`, `payload_too_large`, or `invalid_request` if the digest differs.
        """


@dataclass(frozen=True, slots=True)
class StagedSkill:
    """Files of a skill, unpacked into a staging folder."""

    path: Path
    packed: bytes
    """The files packed again: the same files give the same bytes."""
    content_digest: str
    """SHA-256 of `packed`, hex."""


@dataclass(frozen=True, slots=True)
class FolderState:
    """State of a folder that may hold a skill."""

    path: Path
    content_digest: str
    changed_at: datetime
    """Time of the last change of the folder itself."""
    installed_digest: str | None
    """Content digest in `.vectorized`; None without that file."""
    skill_md_bytes: int | None
    """Size of SKILL.md in `.vectorized`."""
    skill_hash: str | None


class SkillFolders(Protocol):
    """Unpacked skills on this machine. All methods block: call them in a thread."""

    def stage_package(self, archive: Archive, package: SkillPackage) -> StagedSkill:
        """Unpack into a staging folder. Raises PackageError if a file is damaged."""

    def swap_in(self, staged: StagedSkill, record: SkillRecord) -> None:
        """Replace the skill's folder by the staged files."""

    def matches_record(self, record: SkillRecord) -> bool:
        """Return True if the skill's folder has exactly the files of the record."""

    def discard_staged(self, staged: StagedSkill) -> None:
        """Remove a staging folder. One that was swapped in is gone already."""

    def mark_indexed(self, record: SkillRecord) -> None:
        """Write `.vectorized` if the folder has the files of the record."""

    def remove_folder(self, project: str, name: str) -> None:
        """Remove a skill's folder. A missing one is fine."""

    def list_candidates(self) -> Sequence[Path]:
        """Return the folders of all projects that may hold a skill."""

    def read_state(self, folder: Path) -> FolderState | None:
        """Return the state of a folder; None if it is gone or empty. Raises PackageError if it cannot be packed."""

    def parse_project(self, folder: Path) -> str:
        """Return the project that a folder belongs to."""

    def locate_folder(self, project: str, name: str) -> Path:
        """Return the path of a skill's folder."""


class SkillAnnouncer(Protocol):
    """Publishes events about skills. Methods return when the event is stored."""

    async def announce_change(self, change: SkillChangeKind, record: SkillRecord) -> None:
        """Announce that a skill was installed, updated or indexed."""

    async def announce_removal(self, record: SkillRecord) -> None:
        """Announce that a skill was uninstalled."""

    async def announce_upload(self, source: str, outcome: InstallOutcome, record: SkillRecord) -> None:
        """Announce that an upload was installed, and record it in the audit log."""

    async def announce_rejection(
        self, project: str, source: str, errors: tuple[SkillFinding, ...], *, once: bool
    ) -> None:
        """Announce that an upload or folder is not a valid skill. With `once`, a recent repetition is not published.

        Without `once`, it is also recorded in the audit log.
        """

    async def record_folder(self, outcome: InstallOutcome, record: SkillRecord) -> None:
        """Record in the audit log that a folder was installed."""
