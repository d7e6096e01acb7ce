"""Catalogue, folders and index made to agree: at start, every few minutes, and when a folder changes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Final

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.indexer.domain.announcing import Announcer
from skillbus.indexer.domain.comparing import differences, still_different
from skillbus.indexer.domain.errors import IndexerError, SkillPinnedError
from skillbus.indexer.domain.index_entry import Entries, key_of
from skillbus.indexer.domain.installing import Installer
from skillbus.indexer.domain.package import open_folder
from skillbus.indexer.domain.package_errors import PackageError, findings_of
from skillbus.indexer.domain.record import Catalogue, SkillRecord
from skillbus.indexer.domain.storage import FolderState, Packages, SkillFolders
from skillbus.indexer.domain.switch_decisions import SwitchDecisions
from skillbus.indexer.domain.switching import SwitchDriver
from skillbus.indexer.domain.together import in_batches
from skillbus.indexer.domain.tool_index import ToolIndex

_WATCH_AGAIN_S: Final = 5.0
_LOOK_AGAIN_S: Final = 2.0

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
        entries: Entries,
        packages: Packages,
        folders: SkillFolders,
        index: ToolIndex,
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
            await self._announcer.rejected(project, folder.name, findings_of(error), once=True)

    async def compare_index(self) -> Drift:
        """Index what the catalogue has and the index lacks or has otherwise; take out what only the index has.

        Raises:
            IndexUnavailableError: Not now.
        """
        collections, live = self._index.collections, await self._index.live()
        differing = await differences(collections, self._entries, live)
        # What was under way then is there by now, and not written again, which could only make it worse.
        differing = await still_different(collections, self._entries, live, differing.keys)
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


async def keep_reconciled(reconciler: Reconciler, every_s: float, wanted: asyncio.Event, stop: asyncio.Event) -> None:
    """Reconcile now, every `every_s` seconds and when it is `wanted`, until `stop` is set, which sets `wanted` too.

    Cancelling alone is not enough to end it: before Python 3.12 `asyncio.wait_for`, which nats-py waits with, can
    swallow a cancellation that comes together with what it waits for.
    """
    while not stop.is_set():
        wanted.clear()
        for part in (reconciler.scan_folders, reconciler.compare_index, reconciler.sweep_packages):
            with going_on(part.__name__):
                await part()
        with suppress(TimeoutError):
            async with asyncio.timeout(every_s):
                await wanted.wait()


async def keep_switching(decisions: SwitchDecisions, driver: SwitchDriver, stop: asyncio.Event) -> None:
    """Take the index to the default model whenever that is another one, until `stop` is set, which wakes the driver."""
    while not stop.is_set():
        considered_in_s = looked_in_s = _LOOK_AGAIN_S
        with going_on("consider_models"):
            await decisions.consider()
            considered_in_s = inf
        with going_on("switch_models"):
            looked_in_s = await driver.look()
        await driver.rest(min(considered_in_s, looked_in_s))


async def follow_folders(
    reconciler: Reconciler, watch: Callable[[], AsyncIterator[set[Path]]], stop: asyncio.Event
) -> None:
    """Look at each folder that changes, until `stop` is set; a watch that ends in an error is begun again."""
    while not stop.is_set():
        with going_on("watch_folders"):
            async for folders in watch():
                for folder in sorted(folders):
                    with going_on("look_at_folder", folder=folder.name):
                        await reconciler.look_at(folder)
        with suppress(TimeoutError):
            async with asyncio.timeout(_WATCH_AGAIN_S):
                await stop.wait()


@contextmanager
def going_on(task: str, **values: str) -> Generator[None]:
    """Supervise one round of a task: what it meets is logged, and the next round comes."""
    try:
        yield
    except (IndexerError, RequestError) as error:
        log.warning("task_postponed", task=task, reason=str(error), **values)
    except Exception:
        log.exception("task_failed", task=task, **values)
