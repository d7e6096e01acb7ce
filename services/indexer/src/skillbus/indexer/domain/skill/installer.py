"""Installer: checks, installs, updates and uninstalls skills, and changes their switches.

The order of the steps makes every crash harmless: the package is stored first, then the catalogue records the skill,
then folder and index follow. The reconciler makes the last two from the first two. Packages of the history stay; a
package that falls out of it is deleted later.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

import structlog

from skillbus.common.archive import Archive
from skillbus.common.records import WriteConflictError
from skillbus.contracts.indexer.skill_record import SkillFinding
from skillbus.contracts.indexer.skills import SkillChecked
from skillbus.indexer.domain.catalogue.ports import StoredSkill
from skillbus.indexer.domain.catalogue.skill import (
    PackageKey,
    SkillRecord,
    VersionReason,
    build_record,
    find_version,
)
from skillbus.indexer.domain.errors import IndexUnavailableError, SkillMissingError, SkillPinnedError
from skillbus.indexer.domain.package.findings import PackageError, select_breaches
from skillbus.indexer.domain.package.skill_package import SkillPackage, open_package, replace_description
from skillbus.indexer.domain.skill.follower import SkillFollower, SkillStores
from skillbus.indexer.domain.skill.ports import InstallOutcome, SkillFolders, StagedSkill

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class InstalledSkill:
    """Outcome of an install and the record after it."""

    outcome: InstallOutcome
    record: SkillRecord


class Installer:
    """Changes the installed skills.

    Methods that change an existing skill raise SkillMissingError if there is none of the name, and WriteConflictError
    if somebody else changes it at the same time.
    """

    def __init__(self, stores: SkillStores, follower: SkillFollower, now: Callable[[], datetime]) -> None:
        self._stores = stores
        self._follower = follower
        self._now = now

    async def install(self, project: str, data: bytes) -> InstalledSkill:
        """Install a package, or update the skill of its name. The same files again change nothing.

        Raises PackageError if it is not a valid skill, SkillPinnedError if the skill is pinned to another package.
        """
        return await self.install_opened(project, *await asyncio.to_thread(open_package, data))

    async def install_opened(
        self,
        project: str,
        archive: Archive,
        package: SkillPackage,
        reason: VersionReason | None = None,
        over: str | None = None,
    ) -> InstalledSkill:
        """Install a package that is already open; see `install`.

        The reason is by default `installed` or `updated`. `over` is the content digest of the package that this one was
        made from, which must still be the current one.
        """
        folders = self._stores.folders
        async with self._stores.locks.hold((project, package.skill.name)):
            staged = await asyncio.to_thread(folders.stage_package, archive, package)
            try:
                outcome, stored = await self._commit(project, package, staged, reason, over)
            finally:
                await asyncio.to_thread(folders.discard_staged, staged)
            log.info("skill_installed", project=project, skill=stored.record.name, outcome=outcome)
            if outcome != "unchanged":
                await self._stores.announcer.announce_change(outcome, stored.record)
            return InstalledSkill(outcome, await self._follower.try_index(stored))

    async def update_description(self, project: str, name: str, description: str) -> InstalledSkill:
        """Write another description into SKILL.md and install the result. Raises SkillPinnedError, PackageError."""
        record = (await self.load_skill(project, name)).record
        archive, package = await self._stores.open_stored_package(record.package)
        data = await asyncio.to_thread(replace_description, archive, package, description)
        archive, package = await asyncio.to_thread(open_package, data)
        return await self.install_opened(project, archive, package, "described", over=record.content_digest)

    async def roll_back(self, project: str, name: str, content_digest: str | None) -> InstalledSkill:
        """Make an earlier package the current one again: without a digest, the one before the current.

        Raises VersionMissingError if the history has no such package, SkillPinnedError.
        """
        record = (await self.load_skill(project, name)).record
        version = find_version(name, record.history, content_digest)
        key = PackageKey(project, name, version.content_digest)
        archive, package = await self._stores.open_stored_package(key)
        package = replace(package, digest=version.digest, package_bytes=version.size_bytes)
        return await self.install_opened(project, archive, package, "rolled_back", over=record.content_digest)

    async def set_enabled(self, project: str, name: str, enabled: bool) -> SkillRecord:
        """Enable or disable a skill. A disabled skill is neither found nor run.

        If the vector store is unavailable, the index follows the announced event later.
        """
        async with self._stores.locks.hold((project, name)):
            stored = await self.load_skill(project, name)
            if stored.record.skill.enabled != enabled:
                record = stored.record.with_enabled(enabled, self._now())
                stored = await self._stores.catalogue.save_skill(record, stored.revision)
                log.info("skill_enabled" if enabled else "skill_disabled", project=project, skill=name)
                await self._stores.announcer.announce_change("updated", record)
            return await self._follower.try_index(stored)

    async def set_pinned(self, project: str, name: str, pinned: bool) -> SkillRecord:
        """Pin a skill to its package, or unpin it."""
        async with self._stores.locks.hold((project, name)):
            stored = await self.load_skill(project, name)
            if stored.record.skill.pinned == pinned:
                return stored.record
            record = stored.record.with_pinned(pinned)
            await self._stores.catalogue.save_skill(record, stored.revision)
            log.info("skill_pinned" if pinned else "skill_unpinned", project=project, skill=name)
            return record

    async def set_approval(self, project: str, name: str, required: bool) -> SkillRecord:
        """Decide whether an agent's runs of a skill need an approval. The decision stays when it is updated."""
        async with self._stores.locks.hold((project, name)):
            stored = await self.load_skill(project, name)
            if stored.record.skill.requires_approval == required:
                return stored.record
            record = stored.record.with_approval(required)
            stored = await self._stores.catalogue.save_skill(record, stored.revision)
            log.info("skill_approval_set", project=project, skill=name, required=required)
            return await self._follower.try_index(stored)

    async def set_network(self, project: str, name: str, approved: Sequence[str]) -> SkillRecord:
        """Approve places of the network for a skill's runs, among those it requests. Raises PlaceNotWantedError."""
        async with self._stores.locks.hold((project, name)):
            stored = await self.load_skill(project, name)
            record = stored.record.with_network(approved)
            if record != stored.record:
                await self._stores.catalogue.save_skill(record, stored.revision)
                places = record.skill.network_approved
                log.info("skill_network_approved", project=project, skill=name, places=places)
            return record

    async def uninstall(self, project: str, name: str) -> SkillRecord:
        """Remove a skill: its record, its vectors, its packages and its folder.

        If the vector store is unavailable, the vectors are removed later, after the announced event.
        """
        async with self._stores.locks.hold((project, name)):
            stored = await self.load_skill(project, name)
            await self._stores.catalogue.delete_skill(project, name, stored.revision)
            try:
                await self._stores.index.remove_entries([stored.record.key])
            except IndexUnavailableError as error:
                log.warning("vectors_removed_later", project=project, skill=name, reason=str(error))
            for key in stored.record.packages:
                await self._stores.packages.delete_package(key)
            await asyncio.to_thread(self._stores.folders.remove_folder, project, name)
        log.info("skill_uninstalled", project=project, skill=name)
        await self._stores.announcer.announce_removal(stored.record)
        return stored.record

    async def load_skill(self, project: str, name: str) -> StoredSkill:
        """Return the record of a skill. Raises SkillMissingError."""
        stored = await self._stores.catalogue.load_skill(project, name)
        if stored is None:
            raise SkillMissingError(project, name)
        return stored

    async def _commit(
        self, project: str, package: SkillPackage, staged: StagedSkill, reason: VersionReason | None, over: str | None
    ) -> tuple[InstallOutcome, StoredSkill]:
        stores, name = self._stores, package.skill.name
        stored = await stores.catalogue.load_skill(project, name)
        earlier = stored.record if stored else None
        if over is not None and (earlier is None or earlier.content_digest != over):
            raise WriteConflictError(f"The skill {name!r} of project {project!r}")
        if stored is not None and stored.record.content_digest == staged.content_digest:
            log.info("skill_unchanged_skipped", project=project, skill=name)
            await asyncio.to_thread(self._restore_unchanged, staged, stored.record)
            return "unchanged", stored
        if earlier is not None and earlier.skill.pinned:
            raise SkillPinnedError(project, name, earlier.content_digest)
        outcome: Literal["installed", "updated"] = "updated" if stored else "installed"
        record = build_record(project, package, staged.content_digest, reason or outcome, self._now(), earlier)
        await stores.packages.store_package(record.package, staged.packed)
        stored = await stores.catalogue.save_skill(record, stored.revision if stored else 0)
        await asyncio.to_thread(stores.folders.swap_in, staged, record)
        return outcome, stored

    def _restore_unchanged(self, staged: StagedSkill, record: SkillRecord) -> None:
        """Swap in the files if a crash after the write of the catalogue left the folder without them."""
        folders = self._stores.folders
        if folders.matches_record(record):
            return
        folders.swap_in(staged, record)
        if record.skill.indexed:
            folders.mark_indexed(record)


async def check_package(folders: SkillFolders, project: str, data: bytes) -> SkillChecked:
    """Open, unpack and record a package like an install, and discard the result."""

    def check() -> SkillChecked:
        package: SkillPackage | None = None
        errors: tuple[SkillFinding, ...] = ()
        warnings: tuple[SkillFinding, ...] = ()
        try:
            archive, package = open_package(data)
            warnings = package.warnings
            staged = folders.stage_package(archive, package)
            try:
                build_record(project, package, staged.content_digest, "installed", datetime.now(UTC), None)
            finally:
                folders.discard_staged(staged)
        except PackageError as error:
            errors, warnings = error.errors, error.warnings
        breaches = select_breaches(errors, warnings)
        return SkillChecked(
            valid=not breaches,
            installable=not errors,
            errors=errors,
            warnings=warnings,
            breaches=breaches,
            name=package.skill.name if package else None,
            description=package.skill.description if package else None,
            scan=package.scan if package else None,
        )

    return await asyncio.to_thread(check)
