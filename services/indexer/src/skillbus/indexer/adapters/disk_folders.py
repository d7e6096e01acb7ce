"""Unpacked skills on disk: `skills/<name>` of the default project, `projects/<project>/skills/<name>` of the others."""

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from pydantic import BaseModel, Field, ValidationError
from watchfiles import awatch

from skillbus.common.archive import Archive, ArchiveError, pack_directory
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.package.findings import PackageError, finding_from_archive
from skillbus.indexer.domain.package.skill_package import KEPT_LIMITS, VECTORIZED, SkillPackage, extract_package
from skillbus.indexer.domain.skill.ports import FolderState, Staged

_STAGING: Final = ".staging"
_QUIET_MS: Final = 300
"""A folder that is being copied is looked at when nothing has changed for this long."""
_AT_MOST_MS: Final = 3000


class _Vectorized(BaseModel):
    """`.vectorized`, as skill-vector-retrieval.md § 首次索引Skills writes it, and one field more."""

    indexed_at: int = Field(alias="indexedAt")
    """Milliseconds since 1970."""
    skill_size: int = Field(alias="skillSize")
    skill_hash: str = Field(alias="skillHash")
    content_digest: str | None = Field(default=None, alias="contentDigest")
    """Tells a folder that was changed by hand from one that another replica has a newer package for."""


class DiskFolders:
    """Folders below one data directory. Renames within it are what makes a swap whole."""

    def __init__(self, data: Path) -> None:
        self._data = data.resolve()  # changes are told by absolute paths
        self._staging = self._data / _STAGING

    def prepare(self) -> None:
        """Make the folders, and clear what a crash left in staging."""
        shutil.rmtree(self._staging, ignore_errors=True)
        self._staging.mkdir(parents=True)
        self.root_of(DEFAULT_PROJECT).mkdir(parents=True, exist_ok=True)

    def root_of(self, project: str) -> Path:
        """Where a project's skills lie."""
        return self._data / "skills" if project == DEFAULT_PROJECT else self._data / "projects" / project / "skills"

    def path_of(self, project: str, name: str) -> Path:
        return self.root_of(project) / name

    def project_of(self, folder: Path) -> str:
        return DEFAULT_PROJECT if folder.parent == self._data / "skills" else folder.parent.parent.name

    def stage(self, archive: Archive, package: SkillPackage) -> Staged:
        path = self._staging / uuid4().hex
        path.mkdir()
        try:
            extract_package(archive, package, path)
            packed = _packed(path)
            return Staged(path, packed, hashlib.sha256(packed).hexdigest())
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    def swap_in(self, staged: Staged, record: SkillRecord) -> None:
        place = self.path_of(record.project, record.name)
        place.parent.mkdir(parents=True, exist_ok=True)
        old = self._staging / uuid4().hex
        with suppress(FileNotFoundError):
            place.rename(old)
        staged.path.rename(place)
        shutil.rmtree(old, ignore_errors=True)

    def holds(self, record: SkillRecord) -> bool:
        place = self.path_of(record.project, record.name)
        try:
            return place.is_dir() and _content_digest(place) == record.content_digest
        except ArchiveError:
            return False

    def discard(self, staged: Staged) -> None:
        shutil.rmtree(staged.path, ignore_errors=True)

    def mark_indexed(self, record: SkillRecord) -> None:
        if not self.holds(record):
            return
        mark = _Vectorized(
            indexedAt=int(datetime.now(UTC).timestamp() * 1000),
            skillSize=record.skill_md_bytes,
            skillHash=record.skill_hash,
            contentDigest=record.content_digest,
        )
        scratch = self._staging / uuid4().hex
        scratch.write_text(mark.model_dump_json(by_alias=True, indent=2))
        scratch.replace(self.path_of(record.project, record.name) / VECTORIZED)

    def remove(self, project: str, name: str) -> None:
        old = self._staging / uuid4().hex
        with suppress(FileNotFoundError):
            self.path_of(project, name).rename(old)
        shutil.rmtree(old, ignore_errors=True)

    def candidates(self) -> Sequence[Path]:
        roots = [self.root_of(DEFAULT_PROJECT), *sorted(self._data.glob("projects/*/skills"))]
        return [path for root in roots for path in sorted(root.iterdir()) if _may_hold_a_skill(path)]

    def state(self, folder: Path) -> FolderState | None:
        if not _may_hold_a_skill(folder) or not any(folder.iterdir()):
            return None
        try:
            digest = _content_digest(folder)
        except ArchiveError as error:
            raise PackageError((finding_from_archive(error),)) from error
        mark = _read_mark(folder)
        return FolderState(
            path=folder,
            content_digest=digest,
            changed_at=datetime.fromtimestamp(folder.stat().st_ctime, UTC),
            installed_digest=mark.content_digest if mark else None,
            skill_md_bytes=mark.skill_size if mark else None,
            skill_hash=mark.skill_hash if mark else None,
        )


def _may_hold_a_skill(path: Path) -> bool:
    return not path.name.startswith(".") and path.is_dir() and not path.is_symlink()


def _packed(folder: Path) -> bytes:
    return pack_directory(folder, KEPT_LIMITS, skip={VECTORIZED})


def _content_digest(folder: Path) -> str:
    return hashlib.sha256(_packed(folder)).hexdigest()


def _read_mark(folder: Path) -> _Vectorized | None:
    try:
        return _Vectorized.model_validate_json((folder / VECTORIZED).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


async def watch_folders(folders: DiskFolders, stop: asyncio.Event) -> AsyncIterator[set[Path]]:
    """Sets of skill folders of the default project in which something changed, until `stop` is set.

    Folders of other projects are found by the reconciler.
    """
    root = folders.root_of(DEFAULT_PROJECT)
    async for changes in awatch(
        root, stop_event=stop, step=_QUIET_MS, debounce=_AT_MOST_MS, ignore_permission_denied=True
    ):
        changed = {_folder_of(Path(path), root) for _, path in changes}
        yield {folder for folder in changed if folder is not None}


def _folder_of(path: Path, root: Path) -> Path | None:
    parts = path.relative_to(root).parts
    return root / parts[0] if parts and not parts[0].startswith(".") else None
