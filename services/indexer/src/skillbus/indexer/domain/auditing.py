"""Whether catalogue, vectors and packages agree, told kind by kind, and made so if asked to."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.contracts.tools import AuditIndex, Difference, IndexAudited
from skillbus.indexer.domain.comparing import NONE, SETTLE_S, Differences, lasting_differences, still_different
from skillbus.indexer.domain.entries import Entries, EntryT, Key
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index import Index
from skillbus.indexer.domain.knowledge_entry import KnowledgeEntry
from skillbus.indexer.domain.listed_tool import ListedTools
from skillbus.indexer.domain.package import open_folder
from skillbus.indexer.domain.package_errors import PackageError
from skillbus.indexer.domain.record import Catalogue, SkillRecord
from skillbus.indexer.domain.storage import Packages, SkillFolders
from skillbus.indexer.domain.together import in_batches
from skillbus.indexer.domain.tool_entry import ToolEntry, key_of

_TOLD: Final = 100
"""Ids of a kind that are told."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class IndexAuditor(Generic[EntryT]):
    """Compares the index of a dataset with its record. Methods raise IndexUnavailableError when it cannot be had."""

    index: Index[EntryT]
    entries: Entries[EntryT]
    follow: Callable[[Sequence[Key]], Awaitable[None]]
    """Has the index follow the record."""
    prefix: str = ""
    """Of the kinds of differences."""
    settle_s: tuple[float, ...] = SETTLE_S

    async def audit(self, project: str | None, *, fix: bool) -> tuple[Differences, list[Difference]]:
        """What a look found, and what of it was no write under way; with `fix`, how much of that differs no more."""
        collections, live = self.index.collections, await self.index.opened()
        if live is None:
            return NONE, []
        found, lasting = await lasting_differences(collections, self.entries, live, self.settle_s, project)
        unmended = set(lasting.keys)
        if fix and lasting:
            await in_batches(lasting.keys, self.follow)
            unmended = set((await still_different(collections, self.entries, live, lasting.keys)).keys)
        kinds = {
            "not_indexed": lasting.missing,
            "indexed_otherwise": lasting.stale,
            "indexed_only": lasting.ghosts,
        }
        told = [_difference(f"{self.prefix}{kind}", keys, unmended) for kind, keys in kinds.items() if keys]
        return found, told


@dataclass(frozen=True, slots=True)
class Auditor:
    """Compares, and mends. Methods raise IndexUnavailableError when the index cannot be had."""

    skills: Catalogue
    listed: ListedTools
    tools: IndexAuditor[ToolEntry]
    knowledge: IndexAuditor[KnowledgeEntry]
    packages: Packages
    folders: SkillFolders

    async def audit(self, request: AuditIndex) -> IndexAudited:
        """What differs, after what was under way had time to end; with `fix`, how much of it does no more."""
        found, told = await self.tools.audit(request.project, fix=request.fix)
        told += await self._of_packages(request)
        audited = IndexAudited(
            catalogued=found.total,
            inactive=await self.listed.inactive(request.project),
            indexed=found.points,
            differences=tuple(told),
        )
        audited = await self._with_knowledge(audited, request)
        log.info("index_audited", **audited.model_dump(exclude={"differences"}), kinds=len(audited.differences))
        return audited

    async def _with_knowledge(self, audited: IndexAudited, request: AuditIndex) -> IndexAudited:
        """What is told of tools does not depend on whether the learner is there."""
        try:
            found, told = await self.knowledge.audit(request.project, fix=request.fix)
        except (IndexUnavailableError, RequestError) as error:
            return audited.model_copy(update={"knowledge_problem": str(error)})
        update = {"knowledge": found.total, "knowledge_indexed": found.points}
        return audited.model_copy(update={**update, "differences": (*audited.differences, *told)})

    async def _of_packages(self, request: AuditIndex) -> list[Difference]:
        records = {record.package: record for record in await self.skills.all(request.project)}
        missing = [records[package] for package in await self.packages.missing(records)]
        mended = {key_of(record) for record in missing if request.fix and await self._packed_again(record)}
        keys = [key_of(record) for record in missing]
        return [_difference("package_missing", keys, set(keys) - mended)] if keys else []

    async def _packed_again(self, record: SkillRecord) -> bool:
        """Make a package of the folder, if that holds what was installed."""
        path = self.folders.path_of(record.project, record.name)
        try:
            archive, package = await asyncio.to_thread(open_folder, path)
            staged = await asyncio.to_thread(self.folders.stage, archive, package)
        except (PackageError, OSError) as error:
            log.warning("package_not_made_again", project=record.project, skill=record.name, reason=str(error))
            return False
        try:
            if staged.content_digest != record.content_digest:
                return False
            await self.packages.put(record.package, staged.packed)
        finally:
            await asyncio.to_thread(self.folders.discard, staged)
        return True


def _difference(kind: str, keys: Sequence[Key], unmended: set[Key]) -> Difference:
    return Difference(
        kind=kind,
        ids=tuple(f"{project}/{tool_id}" for project, tool_id in sorted(keys)[:_TOLD]),
        count=len(keys),
        fixed=sum(key not in unmended for key in keys),
    )
