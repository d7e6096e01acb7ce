"""Registry of tools that are not skills: describe, accept, disable and remove them.

The record is written first and the index follows. The reconciler, or the next identical request, indexes what a crash
left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

import structlog

from skillbus.common.records import WriteConflictError
from skillbus.contracts.indexer.tools import PutTools, ToolPut, ToolPutOutcome, ToolsPut
from skillbus.indexer.domain.catalogue.entry import ToolEntry, digest_entry, make_tool_entry
from skillbus.indexer.domain.catalogue.ports import ListedTools, StoredTool, ToolCatalogue, ToolWrite
from skillbus.indexer.domain.catalogue.tool import ToolRecord, hash_description
from skillbus.indexer.domain.errors import (
    IndexUnavailableError,
    NothingNamedError,
    ToolChangedError,
    ToolMissingError,
)
from skillbus.indexer.domain.index.batches import gather_all, write_batches
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Key
from skillbus.indexer.domain.tool.description import (
    DescriptionError,
    ReviewedDescription,
    ToolDecision,
    accept_pending,
    decide_description,
    parse_description,
    read_id,
)

_ATTEMPTS: Final = 20
"""Attempts of one write. In each round of conflicts one of the writers succeeds."""
_REPORTED_FINDINGS: Final = 5
"""Findings of one tool in the reply to `put_tools`; the record has all."""

log = structlog.get_logger(__name__)


class ToolAnnouncer(Protocol):
    """Publishes events about tools."""

    async def announce_held(self, record: ToolRecord, reason: str) -> None:
        """Announce that a tool waits for an operator. Returns when the event is stored."""


@dataclass(slots=True)
class _PendingPut:
    """A description on its way into the catalogue."""

    at: int
    """Position in the request."""
    described: ReviewedDescription
    decision: ToolDecision | None = None
    record: ToolRecord | None = None
    """Record in the catalogue after the decision."""
    revision: int | None = None
    """Revision of the record if it was written."""

    @property
    def id(self) -> str:
        return self.described.tool.id

    @property
    def key(self) -> Key:
        return self.described.project, self.id

    @property
    def digest(self) -> str:
        """Digest of its entry in the index."""
        return digest_entry(self.described.tool, self.described.digest)


@dataclass(frozen=True, slots=True)
class ToolRegistry:
    """Changes the records of tools.

    Methods raise RequestError when the catalogue is unavailable, ToolMissingError if the tool to change does not exist,
    and WriteConflictError if it changes all the time.
    """

    tools: ToolCatalogue
    listed: ListedTools
    index: Index[ToolEntry]
    announcer: ToolAnnouncer
    now: Callable[[], datetime]

    async def put_tools(self, request: PutTools) -> ToolsPut:
        """Take descriptions, each by itself. An unchanged one is neither written nor embedded again."""
        results, puts = _parse_request(request)
        changed = await self._skip_unchanged(request.project, puts)
        indexed = True

        async def put(batch: Sequence[_PendingPut]) -> None:
            nonlocal indexed
            await self._put_batch(request.project, batch)
            indexed = await self._index_batch(batch) and indexed

        await write_batches(changed, put)
        for put_ in puts:
            results[put_.at] = _report(put_)
        return ToolsPut(results=tuple(results[at] for at in range(len(request.tools))), indexed=indexed)

    async def accept_tool(self, project: str, tool_id: str, digest: str) -> ToolRecord:
        """Accept the description in quarantine. Raises ToolChangedError if it has another digest by now."""

        def accept(record: ToolRecord) -> ToolRecord:
            if record.awaited_digest != digest:
                raise ToolChangedError(tool_id, record.awaited_digest)
            return accept_pending(record, self.now()) if record.held else record

        return await self._change(project, tool_id, accept)

    async def set_enabled(self, project: str, tool_id: str, enabled: bool) -> ToolRecord:
        """Enable or disable a tool. A tool in quarantine stays there when it is enabled."""

        def switch(record: ToolRecord) -> ToolRecord:
            if record.disabled is not enabled:
                return record
            return record.model_copy(update={"disabled": not enabled, "updated_at": self.now()})

        return await self._change(project, tool_id, switch)

    async def set_approval(self, project: str, tool_id: str, required: bool) -> ToolRecord:
        """Decide whether an agent's calls of a tool need an approval."""

        def mark(record: ToolRecord) -> ToolRecord:
            if record.approval_mark is required:
                return record
            return record.model_copy(update={"approval_mark": required, "updated_at": self.now()})

        return await self._change(project, tool_id, mark)

    async def remove_tools(self, project: str, tool_ids: Sequence[str], source: str | None) -> Sequence[str]:
        """Remove tools by id, or all of a source. Return the ids of those that existed. Raises NothingNamedError."""
        if not tool_ids and source is None:
            raise NothingNamedError
        ids = list(dict.fromkeys(tool_ids)) or [
            record.id async for record in self.tools.iterate_tools(project) if record.tool.source == source
        ]
        removed = list[str]()

        async def remove(batch: Sequence[str]) -> None:
            gone = await gather_all(self._remove_tool(project, tool_id, source) for tool_id in batch)
            ended = [tool_id for tool_id, existed in zip(batch, gone, strict=True) if existed]
            removed.extend(ended)
            await self._try_sync([(project, tool_id) for tool_id in ended])

        await write_batches(ids, remove)
        log.info("tools_removed", project=project, tools=len(removed), source=source)
        return sorted(removed)

    async def _skip_unchanged(self, project: str, puts: Sequence[_PendingPut]) -> Sequence[_PendingPut]:
        """Decide the descriptions that are recorded and indexed already. Return the others.

        This does not read their records, which takes most of the time of a repeated import. If the first tool is new,
        all are treated as new.
        """
        if not puts or await self.tools.load_tool(project, puts[0].id) is None:
            return puts
        listed = await self.listed.find_tools(project, [put.id for put in puts])
        same = [put for put in puts if (tool := listed.get(put.id)) and tool.unchanged_digest == put.described.digest]
        try:
            current = await self.index.find_current(same)
        except IndexUnavailableError:
            return puts  # the later steps report it
        for put in same:
            if put.key in current:
                put.decision = ToolDecision(ToolPutOutcome.UNCHANGED)
        return [put for put in puts if put.decision is None]

    async def _put_batch(self, project: str, batch: Sequence[_PendingPut]) -> None:
        """Write a batch. If the first tool is new, the others are treated as new until a write fails."""
        first, *others = batch
        stored = dict(await self.tools.load_tools(project, [first.id]))
        if stored:
            stored |= await self.tools.load_tools(project, [put.id for put in others])
        waiting = batch
        for _ in range(_ATTEMPTS):
            waiting = await self._write_batch(waiting, stored)
            if not waiting:
                return
            stored = dict(await self.tools.load_tools(project, [put.id for put in waiting]))
        raise _conflict(project, waiting[0].id)

    async def _write_batch(
        self, batch: Sequence[_PendingPut], stored: Mapping[str, StoredTool]
    ) -> Sequence[_PendingPut]:
        """Decide and write a batch. Return the tools that somebody else wrote since they were read."""
        writes = list[tuple[_PendingPut, ToolWrite]]()
        for put in batch:
            version = stored.get(put.id)
            earlier = version.record if version else None
            decision = decide_description(put.described, earlier, self.now())
            put.decision, put.record = decision, decision.record or earlier
            if decision.record is not None:
                writes.append((put, ToolWrite(decision.record, version.revision if version else 0)))
        revisions = await self.tools.save_tools([write for _, write in writes]) if writes else ()
        for (put, _), revision in zip(writes, revisions, strict=True):
            put.revision = revision
        written = [put for put, _ in writes if put.revision is not None]
        held = [(p.record, p.decision.held_for) for p in written if p.record and p.decision and p.decision.held_for]
        await gather_all(self.announcer.announce_held(record, reason) for record, reason in held)
        return [put for put, _ in writes if put.revision is None]

    async def _index_batch(self, batch: Sequence[_PendingPut]) -> bool:
        """Index the tools just written and any missing from the index. Return False if the index is unavailable."""
        entries = {
            put.key: make_tool_entry(put.record)
            for put in batch
            if put.record and put.decision and put.decision.outcome is not ToolPutOutcome.REJECTED
        }

        async def is_settled() -> bool:
            if any(put.revision is None for put in changed):
                return False
            revisions = {put.key: put.revision for put in changed if put.revision is not None}
            return await self.tools.is_unchanged_since(revisions)

        try:
            same = [entry for put in batch if put.revision is None and (entry := entries.get(put.key))]
            missing = {entry.key for entry in same} - await self.index.find_current(same)
            changed = [put for put in batch if put.revision is not None or put.key in missing]
            known = [entry for put in changed if (entry := entries[put.key])]
            await self.index.sync_entries([put.key for put in changed], known, is_settled)
        except IndexUnavailableError as error:
            log.warning("tools_indexed_later", tools=len(batch), reason=str(error))
            return False
        return True

    async def _try_sync(self, keys: Sequence[Key]) -> None:
        """Make the index follow now if it is available; otherwise the reconciler does it later."""
        try:
            await self.index.sync_entries(keys)
        except IndexUnavailableError as error:
            log.warning("tools_indexed_later", tools=len(keys), reason=str(error))

    async def _change(self, project: str, tool_id: str, change: Callable[[ToolRecord], ToolRecord]) -> ToolRecord:
        for _ in range(_ATTEMPTS):
            stored = await self.tools.load_tool(project, tool_id)
            if stored is None or stored.record is None:
                raise ToolMissingError(project, tool_id)
            changed = change(stored.record)
            if changed is not stored.record:
                [revision] = await self.tools.save_tools([ToolWrite(changed, stored.revision)])
                if revision is None:
                    continue
            await self._try_sync([(project, tool_id)])
            return changed
        raise _conflict(project, tool_id)

    async def _remove_tool(self, project: str, tool_id: str, source: str | None) -> bool:
        for _ in range(_ATTEMPTS):
            stored = await self.tools.load_tool(project, tool_id)
            if stored is None or stored.record is None or source not in {None, stored.record.tool.source}:
                return False
            try:
                await self.tools.delete_tool(stored.record, stored.revision)
            except WriteConflictError:
                continue
            return True
        raise _conflict(project, tool_id)


def _parse_request(request: PutTools) -> tuple[dict[int, ToolPut], list[_PendingPut]]:
    """Parse the descriptions of a request. Return the rejections by position, and the last description of each id."""
    results, last = dict[int, ToolPut](), dict[str, _PendingPut]()
    for at, value in enumerate(request.tools):
        try:
            tool = parse_description(value, request.source)
        except DescriptionError as error:
            results[at] = ToolPut(id=read_id(value), outcome=ToolPutOutcome.REJECTED, error=str(error))
            continue
        described = ReviewedDescription(request.project, tool, hash_description(tool), request.review_changes)
        if (earlier := last.get(tool.id)) is not None:
            again = f"is described again as number {at + 1}, which is taken instead"
            results[earlier.at] = ToolPut(id=tool.id, outcome=ToolPutOutcome.REJECTED, error=again)
        last[tool.id] = _PendingPut(at, described)
    return results, list(last.values())


def _report(put: _PendingPut) -> ToolPut:
    decision = put.decision
    if decision is None:
        raise AssertionError("each description of a batch is decided, or the batch raises")
    return ToolPut(
        id=put.id,
        outcome=decision.outcome,
        error=decision.error,
        findings=decision.findings[:_REPORTED_FINDINGS],
    )


def _conflict(project: str, tool_id: str) -> WriteConflictError:
    return WriteConflictError(f"The tool {tool_id!r} of project {project!r}")
