"""Installing, updating and uninstalling skills, and what else an operator decides about them.

The order makes every crash harmless: the package is kept first, then the catalogue says that it is installed, then
the folder and the index follow; whatever is missing of the last two, the reconciler makes from the first two.
Packages of the history stay; what falls out of it is swept.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import structlog

from skillbus.common.archive import Archive
from skillbus.indexer.domain.catalogue.entry import ToolEntry, key_of
from skillbus.indexer.domain.catalogue.history import Reason, version_to_go_back_to
from skillbus.indexer.domain.catalogue.ports import Catalogue, Stored
from skillbus.indexer.domain.catalogue.skill import Change, PackageKey, SkillRecord, record_of
from skillbus.indexer.domain.errors import (
    IndexUnavailableError,
    RecordConflictError,
    SkillMissingError,
    SkillPinnedError,
)
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.package.skill_package import SkillPackage, open_package, replace_description
from skillbus.indexer.domain.skill.follower import Follower, SkillLocks
from skillbus.indexer.domain.skill.ports import Announcer, Outcome, Packages, SkillFolders, Staged

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Installed:
    """What became of a package."""

    outcome: Outcome
    record: SkillRecord


@dataclass(frozen=True, slots=True)
class Wish:
    """Why a package is installed."""

    reason: Reason | None = None
    """None: as a new skill or another package of one, whichever it turns out to be."""
    over: str | None = None
    """Content digest of the package that it was made from, and that must still be the current one."""


_AS_IT_COMES: Final = Wish()


class Installer:
    """Changes what is installed."""

    def __init__(
        self,
        catalogue: Catalogue,
        packages: Packages,
        folders: SkillFolders,
        index: Index[ToolEntry],
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
        self.following = Follower(catalogue, packages, folders, index, announcer, self._locks)

    async def install(self, project: str, data: bytes) -> Installed:
        """Install a package, or update the skill of its name; the same files again change nothing.

        Raises:
            PackageError: It is not a valid skill; nothing was installed.
            SkillPinnedError: The skill of its name is held at another package.
            RecordConflictError: Another replica installs the same skill now.
        """
        return await self.install_opened(project, *await asyncio.to_thread(open_package, data))

    async def install_opened(
        self, project: str, archive: Archive, package: SkillPackage, wish: Wish = _AS_IT_COMES
    ) -> Installed:
        """Install a package that was opened already; see `install`."""
        async with self._locks.of(project, package.skill.name):
            staged = await asyncio.to_thread(self._folders.stage, archive, package)
            try:
                installed = await self._commit(project, package, staged, wish)
            finally:
                await asyncio.to_thread(self._folders.discard, staged)
            log.info("skill_installed", project=project, skill=installed.record.name, outcome=installed.outcome)
            if installed.outcome != "unchanged":
                await self._announcer.changed(installed.outcome, installed.record)
            record = await self.following.index_now(installed.record)
        return Installed(installed.outcome, record)

    async def update_description(self, project: str, name: str, description: str) -> Installed:
        """Write another description into SKILL.md and install what comes of it.

        Raises:
            SkillMissingError: There is no such skill.
            SkillPinnedError: It is held at its package.
            PackageError: SKILL.md cannot take the description.
            RecordConflictError: The skill was changed meanwhile.
        """
        record = (await self.get(project, name)).record
        archive, package = await self.following.kept(record.package)
        data = await asyncio.to_thread(replace_description, archive, package, description)
        wish = Wish("described", over=record.content_digest)
        return await self.install_opened(project, *await asyncio.to_thread(open_package, data), wish)

    async def roll_back(self, project: str, name: str, content_digest: str | None) -> Installed:
        """Make an earlier package the current one again; the one before the current if none is named.

        Raises:
            SkillMissingError: There is no such skill.
            VersionMissingError: Its history has no such package.
            SkillPinnedError: It is held at its package.
            RecordConflictError: The skill was changed meanwhile.
        """
        record = (await self.get(project, name)).record
        version = version_to_go_back_to(name, record.history, content_digest)
        archive, package = await self.following.kept(PackageKey(project, name, version.content_digest))
        package = replace(package, digest=version.digest, package_bytes=version.size_bytes)
        return await self.install_opened(project, archive, package, Wish("rolled_back", over=record.content_digest))

    async def set_enabled(self, project: str, name: str, enabled: bool) -> SkillRecord:
        """Let a skill be found and run, or not.

        When the vector store is away the index follows later, by the fact that is announced here.

        Raises:
            SkillMissingError: There is no such skill.
            RecordConflictError: Another replica changed the skill meanwhile.
        """
        async with self._locks.of(project, name):
            stored = await self.get(project, name)
            record = stored.record
            if record.skill.enabled != enabled:
                record = record.with_enabled(enabled, self._now())
                await self._catalogue.put(record, stored.revision)
                log.info("skill_enabled" if enabled else "skill_disabled", project=project, skill=name)
                await self._announcer.changed("updated", record)
            return await self.following.index_now(record)

    async def set_pinned(self, project: str, name: str, pinned: bool) -> SkillRecord:
        """Hold a skill at the package that is installed, or let it go.

        Raises:
            SkillMissingError: There is no such skill.
            RecordConflictError: Another replica changed the skill meanwhile.
        """
        async with self._locks.of(project, name):
            stored = await self.get(project, name)
            if stored.record.skill.pinned == pinned:
                return stored.record
            record = stored.record.with_pinned(pinned)
            await self._catalogue.put(record, stored.revision)
            log.info("skill_pinned" if pinned else "skill_unpinned", project=project, skill=name)
            return record

    async def set_network(self, project: str, name: str, approved: Sequence[str]) -> SkillRecord:
        """Let the runs of a skill reach these places, of those that it wants, and no other.

        Raises:
            SkillMissingError: There is no such skill.
            PlaceNotWantedError: It does not want one of them.
            RecordConflictError: Another replica changed the skill meanwhile.
        """
        async with self._locks.of(project, name):
            stored = await self.get(project, name)
            record = stored.record.with_network(approved)
            if record != stored.record:
                await self._catalogue.put(record, stored.revision)
                places = record.skill.network_approved
                log.info("skill_network_approved", project=project, skill=name, places=places)
            return record

    async def uninstall(self, project: str, name: str) -> SkillRecord:
        """Remove a skill: catalogue entry, vectors, packages and folder.

        When the vector store is away its vectors go later, by the fact that is announced here.

        Raises:
            SkillMissingError: There is no such skill.
            RecordConflictError: Another replica changed the skill meanwhile.
        """
        async with self._locks.of(project, name):
            stored = await self.get(project, name)
            await self._catalogue.delete(project, name, stored.revision)
            try:
                await self._index.remove([key_of(stored.record)])
            except IndexUnavailableError as error:
                log.warning("vectors_removed_later", project=project, skill=name, reason=str(error))
            for key in stored.record.packages:
                await self._packages.delete(key)
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

    async def _commit(self, project: str, package: SkillPackage, staged: Staged, wish: Wish) -> Installed:
        stored = await self._catalogue.get(project, package.skill.name)
        earlier = stored.record if stored else None
        if wish.over is not None and (earlier is None or earlier.content_digest != wish.over):
            raise RecordConflictError(project, package.skill.name)
        if earlier is not None and earlier.content_digest == staged.content_digest:
            log.info("skill_unchanged_skipped", project=project, skill=earlier.name)
            await asyncio.to_thread(self._keep_in_place, staged, earlier)
            return Installed("unchanged", earlier)
        if earlier is not None and earlier.skill.pinned:
            raise SkillPinnedError(project, earlier.name, earlier.content_digest)
        change = Change(wish.reason or ("updated" if stored else "installed"), self._now())
        record = record_of(project, package, staged.content_digest, change, earlier)
        await self._packages.put(record.package, staged.packed)
        await self._catalogue.put(record, stored.revision if stored else 0)
        await asyncio.to_thread(self._folders.swap_in, staged, record)
        return Installed("updated" if stored else "installed", record)

    def _keep_in_place(self, staged: Staged, record: SkillRecord) -> None:
        """Swap in what a crash, after the catalogue was written, left out of the folder."""
        if self._folders.holds(record):
            return
        self._folders.swap_in(staged, record)
        if record.skill.indexed:
            self._folders.mark_indexed(record)
