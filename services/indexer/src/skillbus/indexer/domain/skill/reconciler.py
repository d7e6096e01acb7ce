"""Catalogue, folders and index made to agree: at start, every few minutes, and when a folder changes."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from skillbus.indexer.domain.catalogue.entry import ToolEntry, key_of
from skillbus.indexer.domain.catalogue.ports import Catalogue
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.errors import SkillPinnedError
from skillbus.indexer.domain.index.batches import in_batches
from skillbus.indexer.domain.index.differences import lasting_differences
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Entries
from skillbus.indexer.domain.package.findings import PackageError, findings_from_refusal
from skillbus.indexer.domain.package.skill_package import open_folder
from skillbus.indexer.domain.skill.installer import Installer
from skillbus.indexer.domain.skill.ports import Announcer, FolderState, Packages, SkillFolders

AT_ONCE: Final = (0.0,)
"""How long a comparison waits for what is under way if it mends what is not: it is made again in some minutes."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Drift:
    """What a comparison of catalogue and index found and mended."""

    indexed: int = 0
    removed: int = 0


class Reconciler:
    """Finds where catalogue, folders and index differ, and makes them agree."""

    def __init__(
        self,
        catalogue: Catalogue,
        entries: Entries[ToolEntry],
        packages: Packages,
        folders: SkillFolders,
        index: Index[ToolEntry],
        installer: Installer,
        announcer: Announcer,
    ) -> None:
        self._catalogue = catalogue
        self._entries = entries
        self._packages = packages
        self._folders = folders
        self._index = index
        self._installer = installer
        self._announcer = announcer

    async def scan_folders(self) -> None:
        """Take up what was put under `data/skills` by hand, and put back what is missing there."""
        for folder in await asyncio.to_thread(self._folders.candidates):
            await self.look_at(folder)
        for record in await self._catalogue.all():
            if not self._folders.path_of(record.project, record.name).exists():
                log.info("skill_folder_restored", project=record.project, skill=record.name)
                await self._installer.following.restore_folder(record)

    async def look_at(self, folder: Path) -> None:
        """Install a folder that is new or was changed by hand; leave alone what is as it was installed."""
        project = self._folders.project_of(folder)
        try:
            state = await asyncio.to_thread(self._folders.state, folder)
            if state is not None:
                await self._take(project, state)
        except (PackageError, SkillPinnedError) as error:
            log.warning("skill_folder_rejected", folder=folder.name, project=project, errors=str(error))
            await self._announcer.rejected(project, folder.name, findings_from_refusal(error), once=True)

    async def compare_index(self) -> Drift:
        """Index what the catalogue has and the index lacks or has otherwise; take out what only the index has.

        Raises:
            IndexUnavailableError: Not now.
        """
        collections, live = self._index.collections, await self._index.live()
        # What was under way then is there by now, and not written again, which could only make it worse.
        _, differing = await lasting_differences(collections, self._entries, live, AT_ONCE)
        skills = await self._catalogue.all()
        waiting = [record for record in skills if record.skill.enabled and not record.skill.indexed]
        await in_batches([*dict.fromkeys((*differing.keys, *map(key_of, waiting)))], self._index.follow)
        for record in waiting:
            await self._installer.following.confirm_indexed(record)
        if differing:
            log.info("index_drift_mended", indexed=len(differing.unwritten), removed=len(differing.ghosts))
        return Drift(len(differing.unwritten), len(differing.ghosts))

    async def sweep_packages(self) -> None:
        """Let go of packages that nobody asked for, or that a crash kept from being removed."""
        kept = {key for record in await self._catalogue.all() for key in record.packages}
        if swept := await self._packages.sweep(kept):
            log.info("left_packages_swept", packages=swept)

    async def _take(self, project: str, state: FolderState) -> None:
        name = state.path.name
        stored = await self._catalogue.get(project, name)
        untouched = state.installed_digest == state.content_digest
        if stored is None:
            removed_at = await self._catalogue.removed_at(project, name)
            if removed_at is not None and state.changed_at < removed_at:  # another replica uninstalled it
                await asyncio.to_thread(self._folders.remove, project, name)
            else:
                await self._install(project, state)
        elif stored.record.content_digest == state.content_digest:
            await self._skip(stored.record, state)
        elif untouched or _is_left_over(stored.record, state):  # another replica installed a newer package
            await self._installer.following.restore_folder(stored.record)
        else:
            await self._install(project, state)

    async def _skip(self, record: SkillRecord, state: FolderState) -> None:
        if (state.skill_md_bytes, state.skill_hash) == (record.skill_md_bytes, record.skill_hash):
            log.info("skill_unchanged_skipped", project=record.project, skill=record.name)
        elif record.skill.indexed:
            await asyncio.to_thread(self._folders.mark_indexed, record)

    async def _install(self, project: str, state: FolderState) -> None:
        archive, package = await asyncio.to_thread(open_folder, state.path)
        await self._installer.install_opened(project, archive, package)
        if package.skill.name != state.path.name:
            # It lies under its own name now; left here, it would come back after it was uninstalled.
            await asyncio.to_thread(self._folders.remove, project, state.path.name)


def _is_left_over(record: SkillRecord, state: FolderState) -> bool:
    """Whether the folder holds an earlier package since before the current one came, and was never marked.

    The folder of a skill that was not indexed, for it is disabled or the store was away, is not.
    """
    current, *earlier = record.history
    was_installed = state.content_digest in {version.content_digest for version in earlier}
    return state.installed_digest is None and was_installed and state.changed_at < current.installed_at
