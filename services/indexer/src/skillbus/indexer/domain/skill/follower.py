"""Index and folders made to follow the catalogue, one skill at a time."""

import asyncio
from weakref import WeakValueDictionary

import structlog

from skillbus.common.archive import Archive
from skillbus.indexer.domain.catalogue.entry import ToolEntry, key_of
from skillbus.indexer.domain.catalogue.ports import Catalogue
from skillbus.indexer.domain.catalogue.skill import PackageKey, SkillRecord, tool_id_of
from skillbus.indexer.domain.errors import IndexUnavailableError, RecordConflictError
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.package.skill_package import KEPT_LIMITS, SkillPackage, open_package
from skillbus.indexer.domain.skill.ports import Announcer, Packages, SkillFolders

log = structlog.get_logger(__name__)


class SkillLocks:
    """Locks by project and name, kept while someone holds or waits for them."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def of(self, project: str, name: str) -> asyncio.Lock:
        """The lock of a skill."""
        return self._locks.setdefault((project, name), asyncio.Lock())


class Follower:
    """Brings index and folder of a skill to where the catalogue is. `locks` are those of whoever writes it."""

    def __init__(
        self,
        catalogue: Catalogue,
        packages: Packages,
        folders: SkillFolders,
        index: Index[ToolEntry],
        announcer: Announcer,
        locks: SkillLocks,
    ) -> None:
        self._catalogue = catalogue
        self._packages = packages
        self._folders = folders
        self._index = index
        self._announcer = announcer
        self._locks = locks

    async def catch_up(self, project: str, name: str) -> None:
        """Make the index follow the catalogue for one skill, whether it is there, disabled or gone.

        Raises:
            IndexUnavailableError: Not now; try again later.
        """
        async with self._locks.of(project, name):
            stored = await self._catalogue.get(project, name)
            if stored is not None and stored.record.skill.indexed:
                return
            await self._index.follow([(project, tool_id_of(name))])
            if stored is not None:
                await self.say_indexed(stored.record)

    async def confirm_indexed(self, record: SkillRecord) -> None:
        """Note that the index holds a record."""
        async with self._locks.of(record.project, record.name):
            await self.say_indexed(record)

    async def restore_folder(self, record: SkillRecord) -> None:
        """Unpack a skill's package into its folder again."""
        archive, package = await self.kept(record.package)
        async with self._locks.of(record.project, record.name):
            staged = await asyncio.to_thread(self._folders.stage, archive, package)
            try:
                await asyncio.to_thread(self._folders.swap_in, staged, record)
            finally:
                await asyncio.to_thread(self._folders.discard, staged)
            if record.skill.indexed:
                await asyncio.to_thread(self._folders.mark_indexed, record)

    async def kept(self, key: PackageKey) -> tuple[Archive, SkillPackage]:
        """A package that is kept."""
        data = await self._packages.get(key)
        return await asyncio.to_thread(open_package, data, KEPT_LIMITS)

    async def index_now(self, record: SkillRecord) -> SkillRecord:
        """Let the index follow at once if it can be had; else the announced fact or the reconciler will.

        Whoever calls this holds the skill's lock.
        """
        if record.skill.indexed:
            return record
        try:
            await self._index.follow([key_of(record)])
        except IndexUnavailableError as error:
            log.warning("skill_indexed_later", project=record.project, skill=record.name, reason=str(error))
            return record
        return await self.say_indexed(record)

    async def say_indexed(self, record: SkillRecord) -> SkillRecord:
        """Note that the index holds a record, unless it is to hold another or none by now; as `index_now`, locked."""
        stored = await self._catalogue.get(record.project, record.name)
        if stored is None or stored.record.content_digest != record.content_digest or not stored.record.skill.enabled:
            return record
        indexed = stored.record.with_indexed(True)
        if not stored.record.skill.indexed:
            try:
                await self._catalogue.put(indexed, stored.revision)
            except RecordConflictError:
                return record  # whoever wrote it since indexes what they wrote
            await self._announcer.changed("indexed", indexed)
        await asyncio.to_thread(self._folders.mark_indexed, indexed)
        return indexed
