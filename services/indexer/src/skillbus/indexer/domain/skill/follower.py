"""Follower of the catalogue: brings index and folder of one skill to the state of its record."""

import asyncio
from dataclasses import dataclass, field

import structlog

from skillbus.common.archive import Archive
from skillbus.common.keyed_locks import KeyedLocks
from skillbus.common.records import WriteConflictError
from skillbus.indexer.domain.catalogue.entry import ToolEntry, make_skill_entry
from skillbus.indexer.domain.catalogue.ports import SkillCatalogue, StoredSkill
from skillbus.indexer.domain.catalogue.skill import SKILL_ID_PREFIX, PackageKey, SkillRecord
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.package.skill_package import KEPT_LIMITS, SkillPackage, open_package
from skillbus.indexer.domain.skill.ports import PackageStore, SkillAnnouncer, SkillFolders

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SkillStores:
    """Everything that holds a skill, and one lock for each skill by project and name."""

    catalogue: SkillCatalogue
    packages: PackageStore
    folders: SkillFolders
    index: Index[ToolEntry]
    announcer: SkillAnnouncer
    locks: KeyedLocks[tuple[str, str]] = field(default_factory=KeyedLocks)

    async def open_stored_package(self, key: PackageKey) -> tuple[Archive, SkillPackage]:
        data = await self.packages.load_package(key)
        return await asyncio.to_thread(open_package, data, KEPT_LIMITS)


@dataclass(frozen=True, slots=True)
class SkillFollower:
    """Brings index and folder of a skill to the state of its record."""

    stores: SkillStores

    async def follow_skill(self, project: str, name: str) -> None:
        """Make the index follow a skill that is enabled, disabled or gone. Raises IndexUnavailableError."""
        async with self.stores.locks.hold((project, name)):
            stored = await self.stores.catalogue.load_skill(project, name)
            if stored is None:
                await self.stores.index.sync_entries([(project, f"{SKILL_ID_PREFIX}{name}")], known=[])
            elif not stored.record.skill.indexed:
                await self._index_record(stored)

    async def confirm_indexed(self, record: SkillRecord) -> None:
        """Record that the index has a skill."""
        async with self.stores.locks.hold((record.project, record.name)):
            await self._mark_indexed(record)

    async def restore_folder(self, record: SkillRecord) -> None:
        """Unpack the package of a skill into its folder again."""
        archive, package = await self.stores.open_stored_package(record.package)
        folders = self.stores.folders
        async with self.stores.locks.hold((record.project, record.name)):
            staged = await asyncio.to_thread(folders.stage_package, archive, package)
            try:
                await asyncio.to_thread(folders.swap_in, staged, record)
            finally:
                await asyncio.to_thread(folders.discard_staged, staged)
            if record.skill.indexed:
                await asyncio.to_thread(folders.mark_indexed, record)

    async def try_index(self, stored: StoredSkill) -> SkillRecord:
        """Index a record that was just written. If the index is unavailable, the event or the reconciler does it later.

        The caller holds the lock of the skill.
        """
        if stored.record.skill.indexed:
            return stored.record
        try:
            return await self._index_record(stored)
        except IndexUnavailableError as error:
            record = stored.record
            log.warning("skill_indexed_later", project=record.project, skill=record.name, reason=str(error))
            return record

    async def _index_record(self, stored: StoredSkill) -> SkillRecord:
        """Index a record. Marking it as indexed is a compare-and-set, which also shows that nobody changed it."""
        record, entry, marked = stored.record, make_skill_entry(stored.record), False

        async def try_mark() -> bool:
            nonlocal marked
            try:
                await self.stores.catalogue.save_skill(record.with_indexed(True), stored.revision)
            except WriteConflictError:
                return False
            marked = True
            return True

        await self.stores.index.sync_entries(
            [record.key], known=[entry] if entry else [], is_settled=try_mark if entry else None
        )
        if not marked:
            return await self._mark_indexed(record)
        return await self._announce_indexed(record.with_indexed(True))

    async def _mark_indexed(self, record: SkillRecord) -> SkillRecord:
        """Record that the index has a skill, unless its record is another or disabled by now."""
        stored = await self.stores.catalogue.load_skill(record.project, record.name)
        if stored is None or stored.record.content_digest != record.content_digest or not stored.record.skill.enabled:
            return record
        indexed = stored.record.with_indexed(True)
        if stored.record.skill.indexed:
            await asyncio.to_thread(self.stores.folders.mark_indexed, indexed)
            return indexed
        try:
            await self.stores.catalogue.save_skill(indexed, stored.revision)
        except WriteConflictError:
            return record  # the other writer indexes it
        return await self._announce_indexed(indexed)

    async def _announce_indexed(self, indexed: SkillRecord) -> SkillRecord:
        await self.stores.announcer.announce_change("indexed", indexed)
        await asyncio.to_thread(self.stores.folders.mark_indexed, indexed)
        return indexed
