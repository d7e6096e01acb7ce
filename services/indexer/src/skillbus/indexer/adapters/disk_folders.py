"""Unpacked skills on disk: `skills/<name>` of the default project, `projects/<project>/skills/<name>` of others."""

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
from skillbus.indexer.domain.package.findings import translate_archive_errors
from skillbus.indexer.domain.package.skill_package import KEPT_LIMITS, VECTORIZED, SkillPackage, extract_package
from skillbus.indexer.domain.skill.ports import FolderState, StagedSkill

_STAGING: Final = ".staging"
_QUIET_MS: Final = 300
"""A folder is checked when nothing in it changed for this long."""
_AT_MOST_MS: Final = 3000


class _Vectorized(BaseModel):
    """`.vectorized` as in skill-vector-retrieval.md § 首次索引Skills, with one additional field."""

    indexed_at: int = Field(alias="indexedAt")
    """Milliseconds since 1970."""
    skill_size: int = Field(alias="skillSize")
    skill_hash: str = Field(alias="skillHash")
    content_digest: str | None = Field(default=None, alias="contentDigest")
    """Distinguishes a folder that was changed by hand from one that is older than another replica's package."""


class DiskFolders:
    """Folders below one data directory. A rename within it makes a swap atomic."""

    def __init__(self, data: Path) -> None:
        self._data = data.resolve()  # file events have absolute paths
        self._staging = self._data / _STAGING

    def prepare_folders(self) -> None:
        """Create the folders and clear the staging folder after a crash."""
        shutil.rmtree(self._staging, ignore_errors=True)
        self._staging.mkdir(parents=True)
        self.locate_root(DEFAULT_PROJECT).mkdir(parents=True, exist_ok=True)

    def locate_root(self, project: str) -> Path:
        """Return the folder of a project's skills."""
        return self._data / "skills" if project == DEFAULT_PROJECT else self._data / "projects" / project / "skills"

    def locate_folder(self, project: str, name: str) -> Path:
        return self.locate_root(project) / name

    def parse_project(self, folder: Path) -> str:
        return DEFAULT_PROJECT if folder.parent == self._data / "skills" else folder.parent.parent.name

    def stage_package(self, archive: Archive, package: SkillPackage) -> StagedSkill:
        path = self._staging / uuid4().hex
        path.mkdir()
        try:
            extract_package(archive, package, path)
            packed = _pack(path)
            return StagedSkill(path, packed, hashlib.sha256(packed).hexdigest())
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    def swap_in(self, staged: StagedSkill, record: SkillRecord) -> None:
        place = self.locate_folder(record.project, record.name)
        place.parent.mkdir(parents=True, exist_ok=True)
        old = self._staging / uuid4().hex
        with suppress(FileNotFoundError):
            place.rename(old)
        staged.path.rename(place)
        shutil.rmtree(old, ignore_errors=True)

    def matches_record(self, record: SkillRecord) -> bool:
        place = self.locate_folder(record.project, record.name)
        try:
            return place.is_dir() and _digest_content(place) == record.content_digest
        except ArchiveError:
            return False

    def discard_staged(self, staged: StagedSkill) -> None:
        shutil.rmtree(staged.path, ignore_errors=True)

    def mark_indexed(self, record: SkillRecord) -> None:
        if not self.matches_record(record):
            return
        mark = _Vectorized(
            indexedAt=int(datetime.now(UTC).timestamp() * 1000),
            skillSize=record.skill_md_bytes,
            skillHash=record.skill_hash,
            contentDigest=record.content_digest,
        )
        scratch = self._staging / uuid4().hex
        scratch.write_text(mark.model_dump_json(by_alias=True, indent=2))
        scratch.replace(self.locate_folder(record.project, record.name) / VECTORIZED)

    def remove_folder(self, project: str, name: str) -> None:
        old = self._staging / uuid4().hex
        with suppress(FileNotFoundError):
            self.locate_folder(project, name).rename(old)
        shutil.rmtree(old, ignore_errors=True)

    def list_candidates(self) -> Sequence[Path]:
        roots = [self.locate_root(DEFAULT_PROJECT), *sorted(self._data.glob("projects/*/skills"))]
        return [path for root in roots for path in sorted(root.iterdir()) if _may_hold_a_skill(path)]

    def read_state(self, folder: Path) -> FolderState | None:
        if not _may_hold_a_skill(folder) or not any(folder.iterdir()):
            return None
        with translate_archive_errors():
            digest = _digest_content(folder)
        mark: _Vectorized | None = None
        with suppress(FileNotFoundError, ValidationError):
            mark = _Vectorized.model_validate_json((folder / VECTORIZED).read_bytes())
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


def _pack(folder: Path) -> bytes:
    return pack_directory(folder, KEPT_LIMITS, skip={VECTORIZED})


def _digest_content(folder: Path) -> str:
    return hashlib.sha256(_pack(folder)).hexdigest()


async def watch_folders(folders: DiskFolders, stop: asyncio.Event) -> AsyncIterator[set[Path]]:
    """Yield sets of skill folders of the default project that changed, until `stop` is set.

    The reconciler finds changes of other projects.
    """
    root = folders.locate_root(DEFAULT_PROJECT)
    async for changes in awatch(
        root, stop_event=stop, step=_QUIET_MS, debounce=_AT_MOST_MS, ignore_permission_denied=True
    ):
        below = [Path(path).relative_to(root).parts for _, path in changes]
        yield {root / parts[0] for parts in below if parts and not parts[0].startswith(".")}
