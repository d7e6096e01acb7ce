"""Installing, updating and uninstalling skills.

The order makes every crash harmless: the package is kept first, then the catalogue says that it is installed, then
the folder and the index follow; whatever is missing of the last two, the reconciler makes from the first two.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from skillbus.common.archive import Archive
from skillbus.indexer.domain.announcing import Announcer, Outcome
from skillbus.indexer.domain.errors import IndexUnavailableError, RecordConflictError, SkillMissingError
from skillbus.indexer.domain.index_entry import key_of
from skillbus.indexer.domain.locks import SkillLocks
from skillbus.indexer.domain.package import KEPT_LIMITS, SkillPackage, open_package, with_description
from skillbus.indexer.domain.record import Catalogue, SkillRecord, Stored, record_of, tool_id_of
from skillbus.indexer.domain.storage import Packages, SkillFolders, Staged
from skillbus.indexer.domain.tool_index import ToolIndex

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Installed:
    """What became of a package."""

    outcome: Outcome
    record: SkillRecord


class Installer:
    """Changes what is installed."""

    def __init__(
        self,
        catalogue: Catalogue,
        packages: Packages,
        folders: SkillFolders,
        index: ToolIndex,
        announcer: Announcer,
        now: Callable[[], datetime],
    ) -> None:
        self._catalogue = catalogue
        self._packages = packages
        self._folders = folders
        self._index = index
        self._announcer = announcer
        self._now = now
        self._locks = SkillLocks()

    async def install(self, project: str, data: bytes) -> Installed:
        """Install a package, or update the skill of its name; the same files again change nothing.

        Raises:
            PackageError: It is not a valid skill; nothing was installed.
            RecordConflictError: Another replica installs the same skill now.
        """
        return await self.install_opened(project, *await asyncio.to_thread(open_package, data))

    async def install_opened(self, project: str, archive: Archive, package: SkillPackage) -> Installed:
        """Install a package that was opened already; see `install`."""
        async with self._locks.of(project, package.skill.name):
            staged = await asyncio.to_thread(self._folders.stage, archive, package)
            try:
                installed = await self._commit(project, package, staged)
            finally:
                await asyncio.to_thread(self._folders.discard, staged)
            log.info("skill_installed", project=project, skill=installed.record.name, outcome=installed.outcome)
            if installed.outcome != "unchanged":
                await self._announcer.changed(installed.outcome, installed.record)
            record = await self._index_now(installed.record)
        return Installed(installed.outcome, record)

    async def update_description(self, project: str, name: str, description: str) -> Installed:
        """Write another description into SKILL.md and install what comes of it.

        Raises:
            SkillMissingError: There is no such skill.
            PackageError: SKILL.md cannot take the description.
            RecordConflictError: Another replica changed the skill meanwhile.
        """
        stored = await self.get(project, name)
        archive, package = await self._kept(stored.record)
        return await self.install(project, await asyncio.to_thread(with_description, archive, package, description))

    async def uninstall(self, project: str, name: str) -> SkillRecord:
        """Remove a skill: catalogue entry, vectors, package and folder.

        When the vector store is away its vectors go later, by the fact that is announced here.

        Raises:
            SkillMissingError: There is no such skill.
            RecordConflictError: Another replica changed the skill meanwhile.
        """
        async with self._locks.of(project, name):
            stored = await self.get(project, name)
            await self._catalogue.delete(project, name, stored.revision)
            try:
                await self._index.remove([(project, tool_id_of(name))])
            except IndexUnavailableError as error:
                log.warning("vectors_removed_later", project=project, skill=name, reason=str(error))
            await self._packages.delete(stored.record)
            await asyncio.to_thread(self._folders.remove, project, name)
        log.info("skill_uninstalled", project=project, skill=name)
        await self._announcer.removed(stored.record)
        return stored.record

    async def get(self, project: str, name: str) -> Stored:
        """One record. Raises SkillMissingError."""
        stored = await self._catalogue.get(project, name)
        if stored is None:
            raise SkillMissingError(project, name)
        return stored

    async def catch_up(self, project: str, name: str) -> None:
        """Make index and folder follow the catalogue for one skill, whether it is there or gone.

        Raises:
            IndexUnavailableError: Not now; try again later.
        """
        async with self._locks.of(project, name):
            stored = await self._catalogue.get(project, name)
            if stored is None:
                await self._index.remove([(project, tool_id_of(name))])
            elif not stored.record.skill.indexed:
                await self._index.follow([key_of(stored.record)])
                await self._say_indexed(stored.record)

    async def confirm_indexed(self, record: SkillRecord) -> None:
        """Note that the index holds a record."""
        async with self._locks.of(record.project, record.name):
            await self._say_indexed(record)

    async def restore_folder(self, record: SkillRecord) -> None:
        """Unpack a skill's package into its folder again."""
        archive, package = await self._kept(record)
        async with self._locks.of(record.project, record.name):
            staged = await asyncio.to_thread(self._folders.stage, archive, package)
            try:
                await asyncio.to_thread(self._folders.swap_in, staged, record)
            finally:
                await asyncio.to_thread(self._folders.discard, staged)
            if record.skill.indexed:
                await asyncio.to_thread(self._folders.mark_indexed, record)

    async def _kept(self, record: SkillRecord) -> tuple[Archive, SkillPackage]:
        data = await self._packages.get(record)
        return await asyncio.to_thread(open_package, data, KEPT_LIMITS)

    async def _commit(self, project: str, package: SkillPackage, staged: Staged) -> Installed:
        stored = await self._catalogue.get(project, package.skill.name)
        if stored is not None and stored.record.content_digest == staged.content_digest:
            log.info("skill_unchanged_skipped", project=project, skill=package.skill.name)
            await asyncio.to_thread(self._keep_in_place, staged, stored.record)
            return Installed("unchanged", stored.record)
        earlier = stored.record if stored else None
        record = record_of(project, package, staged.content_digest, self._now(), earlier)
        await self._packages.put(record, staged.packed)
        await self._catalogue.put(record, stored.revision if stored else 0)
        await asyncio.to_thread(self._folders.swap_in, staged, record)
        if earlier is not None:
            await self._packages.delete(earlier)
        return Installed("updated" if stored else "installed", record)

    def _keep_in_place(self, staged: Staged, record: SkillRecord) -> None:
        """Swap in what a crash, after the catalogue was written, left out of the folder."""
        if self._folders.holds(record):
            return
        self._folders.swap_in(staged, record)
        if record.skill.indexed:
            self._folders.mark_indexed(record)

    async def _index_now(self, record: SkillRecord) -> SkillRecord:
        """Index at once if that can be had; else the announced fact or the reconciler will."""
        if record.skill.indexed:
            return record
        try:
            await self._index.follow([key_of(record)])
        except IndexUnavailableError as error:
            log.warning("skill_indexed_later", project=record.project, skill=record.name, reason=str(error))
            return record
        return await self._say_indexed(record)

    async def _say_indexed(self, record: SkillRecord) -> SkillRecord:
        stored = await self._catalogue.get(record.project, record.name)
        if stored is None or stored.record.content_digest != record.content_digest:
            return record
        indexed = record.with_indexed(True)
        if not stored.record.skill.indexed:
            try:
                await self._catalogue.put(indexed, stored.revision)
            except RecordConflictError:
                return record  # whoever wrote it since indexes what they wrote
            await self._announcer.changed("indexed", indexed)
        await asyncio.to_thread(self._folders.mark_indexed, indexed)
        return indexed
