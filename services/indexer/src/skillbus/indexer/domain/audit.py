"""Audit of catalogue, vectors and packages."""

import asyncio
from dataclasses import dataclass

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.tools import AuditDifference, AuditIndex, IndexAudited, ToolState
from skillbus.indexer.domain.catalogue.entry import ToolEntry
from skillbus.indexer.domain.catalogue.ports import ListedTools, SkillCatalogue
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index.audit import IndexAuditor, report_difference
from skillbus.indexer.domain.knowledge.entry import KnowledgeEntry
from skillbus.indexer.domain.package.findings import PackageError
from skillbus.indexer.domain.package.skill_package import open_folder
from skillbus.indexer.domain.skill.ports import PackageStore, SkillFolders

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CatalogueAuditor:
    """Compares the catalogue with vectors and packages, and repairs them on request."""

    skills: SkillCatalogue
    listed: ListedTools
    tools: IndexAuditor[ToolEntry]
    knowledge: IndexAuditor[KnowledgeEntry]
    packages: PackageStore
    folders: SkillFolders

    async def audit_catalogue(self, request: AuditIndex) -> IndexAudited:
        """Compare catalogue and index, ignoring writes in flight. With `fix`, repair and report what was repaired.

        Raises:
            IndexUnavailableError: The index of tools is unavailable.
        """
        found, differences = await self.tools.audit_index(request.project, fix=request.fix)
        differences += await self._audit_packages(request)
        listed = await self.listed.list_all_tools(request.project)
        audited = IndexAudited(
            catalogued=found.total,
            inactive=sum(tool.state is not ToolState.ACTIVE for tool in listed),
            indexed=found.points,
            differences=tuple(differences),
        )
        audited = await self._add_knowledge(audited, request)
        log.info("index_audited", **audited.model_dump(exclude={"differences"}), kinds=len(audited.differences))
        return audited

    async def _add_knowledge(self, audited: IndexAudited, request: AuditIndex) -> IndexAudited:
        """Add the audit of knowledge. When the learner is unavailable, the audit of tools is still reported."""
        try:
            found, differences = await self.knowledge.audit_index(request.project, fix=request.fix)
        except (IndexUnavailableError, RequestError) as error:
            return audited.model_copy(update={"knowledge_problem": str(error)})
        update = {"knowledge": found.total, "knowledge_indexed": found.points}
        return audited.model_copy(update={**update, "differences": (*audited.differences, *differences)})

    async def _audit_packages(self, request: AuditIndex) -> list[AuditDifference]:
        records = {record.package: record for record in await self.skills.load_all(request.project)}
        missing = [records[package] for package in await self.packages.find_missing(records)]
        repaired = {record.key for record in missing if request.fix and await self._pack_folder(record)}
        keys = [record.key for record in missing]
        return [report_difference("package_missing", keys, set(keys) - repaired)] if keys else []

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
