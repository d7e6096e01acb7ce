"""Whether catalogue, vectors and packages agree, told kind by kind, and made so if asked to."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from skillbus.contracts.tools import AuditIndex, Difference, IndexAudited
from skillbus.indexer.domain.comparing import Differences, differences, still_different
from skillbus.indexer.domain.filling import SETTLE_S
from skillbus.indexer.domain.index_entry import Entries, key_of
from skillbus.indexer.domain.listed_tool import ListedTools
from skillbus.indexer.domain.package import open_folder
from skillbus.indexer.domain.package_errors import PackageError
from skillbus.indexer.domain.record import Catalogue, SkillRecord
from skillbus.indexer.domain.storage import Packages, SkillFolders
from skillbus.indexer.domain.together import in_batches
from skillbus.indexer.domain.tool_index import ToolIndex
from skillbus.indexer.domain.tool_record import Key

_TOLD: Final = 100
"""Ids of a kind that are told."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Auditor:
    """Compares, and mends. Methods raise IndexUnavailableError when the index cannot be had."""

    skills: Catalogue
    listed: ListedTools
    entries: Entries
    index: ToolIndex
    packages: Packages
    folders: SkillFolders
    settle_s: tuple[float, ...] = SETTLE_S

    async def audit(self, request: AuditIndex) -> IndexAudited:
        """What differs, after what was under way had time to end; with `fix`, how much of it does no more."""
        live = await self.index.live()
        found = await differences(self.index.collections, self.entries, live, request.project)
        lasting = found
        for wait_s in self.settle_s:
            if not lasting:
                break
            await asyncio.sleep(wait_s)
            lasting = await self._still(live, lasting.keys)
        told = [*await self._of_index(live, lasting, fix=request.fix), *await self._of_packages(request)]
        audited = IndexAudited(
            catalogued=found.total,
            inactive=await self.listed.inactive(request.project),
            indexed=found.points,
            differences=tuple(told),
        )
        log.info("index_audited", catalogued=audited.catalogued, indexed=audited.indexed, kinds=len(told))
        return audited

    async def _still(self, live: str, keys: Sequence[Key]) -> Differences:
        return await still_different(self.index.collections, self.entries, live, keys)

    async def _of_index(self, live: str, lasting: Differences, *, fix: bool) -> list[Difference]:
        unmended = set(lasting.keys)
        if fix and lasting:
            await in_batches(lasting.keys, self.index.follow)
            unmended = set((await self._still(live, lasting.keys)).keys)
        kinds = {
            "not_indexed": lasting.missing,
            "indexed_otherwise": lasting.stale,
            "indexed_only": lasting.ghosts,
        }
        return [_difference(kind, keys, unmended) for kind, keys in kinds.items() if keys]

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
