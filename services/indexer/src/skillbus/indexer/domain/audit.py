"""Audit of catalogue, vectors and packages."""

import asyncio
from dataclasses import dataclass

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.tools import AuditDifference, AuditIndex, IndexAudited
from skillbus.indexer.domain.catalogue.entry import ToolEntry, key_of
from skillbus.indexer.domain.catalogue.ports import Catalogue, ListedTools
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index.audit import IndexAuditor, report_difference
from skillbus.indexer.domain.knowledge.entry import KnowledgeEntry
from skillbus.indexer.domain.package.findings import PackageError
from skillbus.indexer.domain.package.skill_package import open_folder
from skillbus.indexer.domain.skill.ports import Packages, SkillFolders

log = structlog.get_logger(__name__)


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

    async def _of_packages(self, request: AuditIndex) -> list[AuditDifference]:
        records = {record.package: record for record in await self.skills.all(request.project)}
        missing = [records[package] for package in await self.packages.missing(records)]
        mended = {key_of(record) for record in missing if request.fix and await self._packed_again(record)}
        keys = [key_of(record) for record in missing]
        return [report_difference("package_missing", keys, set(keys) - mended)] if keys else []

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
