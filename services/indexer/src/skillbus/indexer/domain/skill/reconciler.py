"""Reconciler of skills: makes catalogue, folders and index agree at start, every few minutes, and on folder changes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from skillbus.common.background import FailureLog, finish_within
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.errors import IndexerError, SkillPinnedError
from skillbus.indexer.domain.index.batches import write_batches
from skillbus.indexer.domain.index.drift import repair_drift
from skillbus.indexer.domain.package.findings import PackageError, findings_from_refusal
from skillbus.indexer.domain.package.skill_package import open_folder
from skillbus.indexer.domain.skill.follower import SkillFollower, SkillStores
from skillbus.indexer.domain.skill.installer import Installer
from skillbus.indexer.domain.skill.ports import FolderState

log = structlog.get_logger(__name__)
_WATCH_RETRY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class SkillReconciler:
    """Finds differences between catalogue, folders and index, and repairs them."""

    stores: SkillStores
    installer: Installer
    follower: SkillFollower

    async def scan_folders(self) -> None:
        """Install skills that were put under `data/skills` by hand, and restore missing folders."""
        for folder in await asyncio.to_thread(self.stores.folders.list_candidates):
            await self.check_folder(folder)
        for record in await self.stores.catalogue.load_all():
            if not self.stores.folders.locate_folder(record.project, record.name).exists():
                log.info("skill_folder_restored", project=record.project, skill=record.name)
                await self.follower.restore_folder(record)

    async def check_folder(self, folder: Path) -> None:
        """Install a folder that is new or was changed by hand. A folder in its installed state stays as it is."""
        project = self.stores.folders.parse_project(folder)
        try:
            state = await asyncio.to_thread(self.stores.folders.read_state, folder)
            if state is not None:
                await self._apply_folder(project, state)
        except (PackageError, SkillPinnedError) as error:
            log.warning("skill_folder_rejected", folder=folder.name, project=project, errors=str(error))
            errors = findings_from_refusal(error)
            await self.stores.announcer.announce_rejection(project, folder.name, errors, once=True)

    async def compare_index(self) -> None:
        """Index missing and stale entries, and remove points without an entry. Raises IndexUnavailableError."""
        index = self.stores.index
        live = await index.open_live()
        _, differing = await repair_drift(index, index.entries, live, index.sync_entries)
        skills = await self.stores.catalogue.load_all()
        waiting = [record for record in skills if record.skill.enabled and not record.skill.indexed]
        repaired = set(differing.keys)
        await write_batches([record.key for record in waiting if record.key not in repaired], index.sync_entries)
        for record in waiting:
            await self.follower.confirm_indexed(record)
        if differing:
            indexed, removed = len(differing.unwritten), len(differing.ghosts)
            log.info("index_drift_repaired", alias=index.alias, indexed=indexed, removed=removed)

    async def delete_unclaimed_packages(self) -> None:
        """Delete packages of no skill, and packages with a removal that a crash interrupted."""
        claimed = {key for record in await self.stores.catalogue.load_all() for key in record.packages}
        if deleted := await self.stores.packages.delete_unclaimed(claimed):
            log.info("unclaimed_packages_deleted", packages=deleted)

    async def _apply_folder(self, project: str, state: FolderState) -> None:
        name = state.path.name
        stored = await self.stores.catalogue.load_skill(project, name)
        if stored is None:
            removed_at = await self.stores.catalogue.load_removal_time(project, name)
            if removed_at is not None and state.changed_at < removed_at:  # another replica uninstalled it
                await asyncio.to_thread(self.stores.folders.remove_folder, project, name)
            else:
                await self._install_folder(project, state)
        elif stored.record.content_digest == state.content_digest:
            record = stored.record
            if (state.skill_md_bytes, state.skill_hash) == (record.skill_md_bytes, record.skill_hash):
                log.info("skill_unchanged_skipped", project=project, skill=name)
            elif record.skill.indexed:
                await asyncio.to_thread(self.stores.folders.mark_indexed, record)
        elif state.installed_digest == state.content_digest or _is_left_over(stored.record, state):
            await self.follower.restore_folder(stored.record)  # another replica installed a newer package
        else:
            await self._install_folder(project, state)

    async def _install_folder(self, project: str, state: FolderState) -> None:
        archive, package = await asyncio.to_thread(open_folder, state.path)
        installed = await self.installer.install_opened(project, archive, package)
        await self.stores.announcer.record_folder(installed.outcome, installed.record)
        if package.skill.name != state.path.name:
            # The skill now has a folder with its name. The old one would install it again after it was uninstalled.
            await asyncio.to_thread(self.stores.folders.remove_folder, project, state.path.name)


def _is_left_over(record: SkillRecord, state: FolderState) -> bool:
    """Return True if the folder holds an earlier package from before the current one, and was never marked.

    Folders of skills that are not indexed, because they are disabled or the store was unavailable, have no mark.
    """
    current, *earlier = record.history
    was_installed = state.content_digest in {version.content_digest for version in earlier}
    return state.installed_digest is None and was_installed and state.changed_at < current.installed_at


class FolderTask:
    """Checks each skill folder that changes. A watch that fails is started again."""

    def __init__(self, reconciler: SkillReconciler, watch: Callable[[asyncio.Event], AsyncIterator[set[Path]]]) -> None:
        """Make the task. `watch` yields sets of changed folders until its event is set."""
        self._reconciler = reconciler
        self._watch = watch
        self._failures = FailureLog(IndexerError)
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """End `run` soon."""
        self._stop.set()

    async def run(self) -> None:
        while not self._stop.is_set():
            with self._failures.guard("watch_folders"):
                async for folders in self._watch(self._stop):
                    for folder in sorted(folders):
                        with self._failures.guard("check_folder", folder=folder.name):
                            await self._reconciler.check_folder(folder)
            await finish_within(self._stop.wait(), _WATCH_RETRY_S)
