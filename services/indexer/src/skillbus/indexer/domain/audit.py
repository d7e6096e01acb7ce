"""Audit of catalogue, vectors and packages, and the status that counts them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.skills import IndexerStatus
from skillbus.contracts.indexer.tools import AuditDifference, AuditIndex, IndexAudited, ToolState, ToolType
from skillbus.indexer.domain.catalogue.entry import ToolEntry
from skillbus.indexer.domain.catalogue.ports import ListedTools, SkillCatalogue
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.home.command import CommandRecord
from skillbus.indexer.domain.home.device import DeviceRecord
from skillbus.indexer.domain.index.batches import write_batches
from skillbus.indexer.domain.index.differences import (
    NO_DIFFERENCES,
    SETTLE_S,
    Differences,
    compare_keys,
    find_lasting_differences,
)
from skillbus.indexer.domain.index.index import Index, IndexCounts
from skillbus.indexer.domain.index.ports import EntryT, Key
from skillbus.indexer.domain.knowledge import KnowledgeEntry
from skillbus.indexer.domain.package.findings import PackageError
from skillbus.indexer.domain.package.skill_package import open_folder
from skillbus.indexer.domain.record.ports import ListedRecords
from skillbus.indexer.domain.skill.ports import PackageStore, SkillFolders

_REPORTED_IDS: Final = 100
"""Ids reported of each kind of difference."""
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class IndexAuditor(Generic[EntryT]):
    """Compares the index of a dataset with its record. Methods raise IndexUnavailableError when it is unavailable."""

    index: Index[EntryT]
    sync: Callable[[Sequence[Key]], Awaitable[None]]
    """Makes the index follow the record for some keys."""
    prefix: str = ""
    """Prefix of the names of the kinds."""
    settle_s: tuple[float, ...] = SETTLE_S

    async def audit_index(self, project: str | None, *, fix: bool) -> tuple[Differences, list[AuditDifference]]:
        """Compare the index with its record. With `fix`, repair the lasting differences.

        Returns:
            All differences that were found, and a report of those that were not writes in flight.
        """
        collections, entries, live = self.index.collections, self.index.entries, await self.index.open_if_needed()
        if live is None:
            return NO_DIFFERENCES, []
        found, lasting = await find_lasting_differences(collections, entries, live, self.settle_s, project)
        unrepaired = set(lasting.keys)
        if fix and lasting:
            await write_batches(lasting.keys, self.sync)
            unrepaired = set((await compare_keys(collections, entries, live, lasting.keys)).keys)
        kinds = {
            "not_indexed": lasting.missing,
            "indexed_otherwise": lasting.stale,
            "indexed_only": lasting.ghosts,
        }
        return found, [
            report_difference(f"{self.prefix}{kind}", keys, unrepaired) for kind, keys in kinds.items() if keys
        ]


def report_difference(kind: str, keys: Sequence[Key], unrepaired: set[Key]) -> AuditDifference:
    return AuditDifference(
        kind=kind,
        ids=tuple(f"{project}/{tool_id}" for project, tool_id in sorted(keys)[:_REPORTED_IDS]),
        count=len(keys),
        fixed=sum(key not in unrepaired for key in keys),
    )


@dataclass(frozen=True, slots=True)
class CatalogueAuditor:
    """Compares the catalogue with vectors and packages, and repairs them on request."""

    skills: SkillCatalogue
    listed: ListedTools
    tools: IndexAuditor[ToolEntry]
    knowledge: IndexAuditor[KnowledgeEntry]
    devices: IndexAuditor[DeviceRecord]
    commands: IndexAuditor[CommandRecord]
    packages: PackageStore
    folders: SkillFolders

    async def audit_catalogue(self, request: AuditIndex) -> IndexAudited:
        """Compare catalogue and index, ignoring writes in flight. With `fix`, repair and report what was repaired.

        Raises IndexUnavailableError, but if that of knowledge is unavailable, reports it.
        """
        found, differences = await self.tools.audit_index(request.project, fix=request.fix)
        records = {record.package: record for record in await self.skills.load_all(request.project)}
        missing = [records[package] for package in await self.packages.find_missing(records)]
        repaired = {record.key for record in missing if request.fix and await self._pack_folder(record)}
        if keys := [record.key for record in missing]:
            differences.append(report_difference("package_missing", keys, set(keys) - repaired))
        listed = await self.listed.list_all(request.project)
        devices, device_differences = await self.devices.audit_index(request.project, fix=request.fix)
        commands, command_differences = await self.commands.audit_index(request.project, fix=request.fix)
        differences += [*device_differences, *command_differences]
        audited = IndexAudited(
            catalogued=found.total,
            inactive=sum(tool.state is not ToolState.ACTIVE for tool in listed),
            indexed=found.points,
            devices=devices.total,
            devices_indexed=devices.points,
            commands=commands.total,
            commands_indexed=commands.points,
            differences=tuple(differences),
        )
        try:
            known, differences = await self.knowledge.audit_index(request.project, fix=request.fix)
        except (IndexUnavailableError, RequestError) as error:  # the audit of tools is still reported
            audited = audited.model_copy(update={"knowledge_problem": str(error)})
        else:
            update = {"knowledge": known.total, "knowledge_indexed": known.points}
            every = (*audited.differences, *differences)
            audited = audited.model_copy(update={**update, "differences": every})
        log.info("index_audited", **audited.model_dump(exclude={"differences"}), kinds=len(audited.differences))
        return audited

    async def _pack_folder(self, record: SkillRecord) -> bool:
        """Store the package again, made from the folder. Return False if the folder has other files."""
        path = self.folders.locate_folder(record.project, record.name)
        try:
            archive, package = await asyncio.to_thread(open_folder, path)
            staged = await asyncio.to_thread(self.folders.stage_package, archive, package)
        except (PackageError, OSError) as error:
            log.warning("package_not_made_again", project=record.project, skill=record.name, reason=str(error))
            return False
        try:
            if staged.content_digest != record.content_digest:
                return False
            await self.packages.store_package(record.package, staged.packed)
        finally:
            await asyncio.to_thread(self.folders.discard_staged, staged)
        return True


async def read_status(
    listed: ListedTools,
    devices: ListedRecords[object],
    commands: ListedRecords[object],
    index: Index[ToolEntry],
) -> IndexerStatus:
    """Count the records and the index of tools. The counts of the index are absent when it is unavailable."""
    tools = await listed.list_all()
    skills = [tool for tool in tools if tool.tool_type is ToolType.SKILL]
    try:
        counts = await index.count_points()
    except IndexUnavailableError:
        counts = IndexCounts(None, None, None)
    return IndexerStatus(
        skills=len(skills),
        tools=len(tools) - len(skills),
        waiting=sum(skill.state is ToolState.ACTIVE and not skill.indexed for skill in skills),
        points=counts.points,
        collection=counts.collection,
        model=counts.model,
        devices=len(await devices.list_all()),
        commands=len(await commands.list_all()),
    )
