"""Describing, accepting, disabling and removing tools that are no skills.

The record is written first and the index follows it; what is missing of the index after a crash, the reconciler makes
from the records, as does whoever describes the same tools again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Protocol

import structlog

from skillbus.contracts.indexer.tools import PutTools, ToolPut, ToolPutOutcome, ToolsPut
from skillbus.indexer.domain.catalogue.entry import ToolEntry, entry_of_tool
from skillbus.indexer.domain.catalogue.ports import ListedTools, StoredTool, ToolCatalogue, ToolWrite
from skillbus.indexer.domain.catalogue.tool import ToolRecord, digest_of
from skillbus.indexer.domain.errors import (
    IndexUnavailableError,
    NothingNamedError,
    ToolChangedError,
    ToolConflictError,
    ToolMissingError,
)
from skillbus.indexer.domain.index.batches import all_of, in_batches
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Key
from skillbus.indexer.domain.tool.description import DescriptionError, id_of, read_description
from skillbus.indexer.domain.tool.review import Decision, Described, accepted, decide

_TRIES: Final = 20
"""Of one write, each of which another replica won: one of the writers gets on with each try."""
_FINDINGS_TOLD: Final = 5
"""Of one tool in the reply to many; the record has all."""
log = structlog.get_logger(__name__)


class ToolAnnouncer(Protocol):
    """Tells what an operator has to look at."""

    async def held(self, record: ToolRecord, reason: str) -> None:
        """A tool waits to be accepted. Returns when it cannot be lost any more."""
        ...


@dataclass(slots=True)
class _Candidate:
    """A description on its way into the catalogue."""

    at: int
    """Where it stands in the request."""
    described: Described
    decision: Decision | None = None
    record: ToolRecord | None = None
    """What the catalogue holds of it now."""
    revision: int | None = None
    """Of the record, where it was written."""

    @property
    def key(self) -> Key:
        """Whose description it is."""
        return self.described.project, self.described.tool.id

    @property
    def digest(self) -> str:
        """Of what is described."""
        return self.described.digest

    @property
    def rejected(self) -> bool:
        """Whether it was not taken."""
        return self.decision is not None and self.decision.outcome is ToolPutOutcome.REJECTED


class ToolKeeper:
    """Changes what the catalogue says of tools. Methods raise RequestError when the catalogue cannot be had."""

    def __init__(
        self,
        tools: ToolCatalogue,
        listed: ListedTools,
        index: Index[ToolEntry],
        announcer: ToolAnnouncer,
        now: Callable[[], datetime],
    ) -> None:
        self._tools = tools
        self._listed = listed
        self._index = index
        self._announcer = announcer
        self._now = now

    async def put(self, request: PutTools) -> ToolsPut:
        """Take descriptions, each by itself; what did not change is neither written nor embedded again."""
        results, candidates = _read(request)
        others = await self._without_settled(request.project, candidates)
        indexed = True

        async def take(batch: Sequence[_Candidate]) -> None:
            nonlocal indexed
            await self._take(request.project, batch)
            indexed = await self._index_now(batch) and indexed

        await in_batches(others, take)
        for candidate in candidates:
            results[candidate.at] = _result(candidate)
        return ToolsPut(results=tuple(results[at] for at in range(len(request.tools))), indexed=indexed)

    async def accept(self, project: str, tool_id: str, digest: str) -> ToolRecord:
        """Take what waits in quarantine as it was looked at.

        Raises:
            ToolMissingError: There is no such tool.
            ToolChangedError: It is described otherwise by now.
            ToolConflictError: It is changed again and again at the same time.
        """

        def accept(record: ToolRecord) -> ToolRecord:
            if record.awaited_digest != digest:
                raise ToolChangedError(tool_id, record.awaited_digest)
            return accepted(record, self._now()) if record.held else record

        return await self._change(project, tool_id, accept)

    async def set_enabled(self, project: str, tool_id: str, enabled: bool) -> ToolRecord:
        """Let a tool be found and called, or not; one that is in quarantine stays there when it is enabled.

        Raises:
            ToolMissingError: There is no such tool.
            ToolConflictError: It is changed again and again at the same time.
        """

        def switch(record: ToolRecord) -> ToolRecord:
            if record.disabled is not enabled:
                return record
            return record.model_copy(update={"disabled": not enabled, "updated_at": self._now()})

        return await self._change(project, tool_id, switch)

    async def remove(self, project: str, tool_ids: Sequence[str], source: str | None) -> Sequence[str]:
        """Take tools out, all of a source if no ids are given; tells those that were there.

        Raises:
            NothingNamedError: Neither ids nor a source are given.
        """
        if not tool_ids and source is None:
            raise NothingNamedError
        ids = list(dict.fromkeys(tool_ids)) or await self._ids_of(project, source)
        removed = list[str]()

        async def remove(batch: Sequence[str]) -> None:
            gone = await all_of(self._remove_one(project, tool_id, source) for tool_id in batch)
            ended = [tool_id for tool_id, there in zip(batch, gone, strict=True) if there]
            removed.extend(ended)
            await self._follow([(project, tool_id) for tool_id in ended])

        await in_batches(ids, remove)
        log.info("tools_removed", project=project, tools=len(removed), source=source)
        return sorted(removed)

    async def _without_settled(self, project: str, candidates: Sequence[_Candidate]) -> Sequence[_Candidate]:
        """Decide on those that are recorded and indexed as they are described, and give the others.

        Without reading their records, which is most of the time of an import that is done again. If the first is new,
        all are taken for new.
        """
        if not candidates or await self._tools.get(project, candidates[0].described.tool.id) is None:
            return candidates
        listed = await self._listed.known(project, [candidate.described.tool.id for candidate in candidates])
        same = [c for c in candidates if (tool := listed.get(c.key[1])) and tool.settled == c.digest]
        try:
            there = await self._index.holds(same)
        except IndexUnavailableError:
            return candidates  # what is told of that is told where they are taken
        for candidate in same:
            if candidate.key in there:
                candidate.decision = Decision(ToolPutOutcome.UNCHANGED)
        return [candidate for candidate in candidates if candidate.decision is None]

    async def _take(self, project: str, batch: Sequence[_Candidate]) -> None:
        """Write what is to be written of a batch. If the first is new, the others are taken for new until written."""
        first, *others = batch
        found = dict(await self._read_of(project, [first]))
        if found:
            found |= await self._read_of(project, others)
        waiting = batch
        for _ in range(_TRIES):
            waiting = await self._write(waiting, found)
            if not waiting:
                return
            found = dict(await self._read_of(project, waiting))
        raise ToolConflictError(project, waiting[0].described.tool.id)

    async def _read_of(self, project: str, candidates: Sequence[_Candidate]) -> Mapping[str, StoredTool]:
        return await self._tools.get_many(project, [candidate.described.tool.id for candidate in candidates])

    async def _write(self, batch: Sequence[_Candidate], found: Mapping[str, StoredTool]) -> Sequence[_Candidate]:
        """Decide on each, write what is to be written, and give those that others have written since they were read."""
        writes = dict[int, ToolWrite]()
        for at, candidate in enumerate(batch):
            stored = found.get(candidate.described.tool.id)
            earlier = stored.record if stored else None
            decision = decide(candidate.described, earlier, self._now())
            candidate.decision, candidate.record = decision, decision.record or earlier
            if decision.record is not None:
                writes[at] = ToolWrite(decision.record, stored.revision if stored else 0)
        revisions = await self._tools.put_many([*writes.values()]) if writes else ()
        for at, revision in zip(writes, revisions, strict=True):
            batch[at].revision = revision
        written = [batch[at] for at in writes]
        await self._announce_held([candidate for candidate in written if candidate.revision is not None])
        return [candidate for candidate in written if candidate.revision is None]

    async def _announce_held(self, written: Sequence[_Candidate]) -> None:
        held = [(c.record, c.decision.held_for) for c in written if c.record and c.decision and c.decision.held_for]
        await all_of(self._announcer.held(record, reason) for record, reason in held)

    async def _index_now(self, batch: Sequence[_Candidate]) -> bool:
        """Have the index follow what was written, and what was not but is missing there; tells whether it could."""
        entries = {c.key: entry_of_tool(c.record) for c in batch if c.record and not c.rejected}
        try:
            same = [entry for c in batch if c.revision is None and (entry := entries.get(c.key))]
            there = await self._index.holds(same)
            missing = {entry.key for entry in same} - there
            followed = [c for c in batch if c.revision is not None or c.key in missing]
            known = [entry for c in followed if (entry := entries[c.key])]
            await self._index.follow([c.key for c in followed], known, partial(self._settled, followed))
        except IndexUnavailableError as error:
            log.warning("tools_indexed_later", tools=len(batch), reason=str(error))
            return False
        return True

    async def _settled(self, batch: Sequence[_Candidate]) -> bool:
        """Whether all of a batch was written just now, and is surely as it was written."""
        if any(candidate.revision is None for candidate in batch):
            return False
        return await self._tools.none_since({c.key: c.revision for c in batch if c.revision is not None})

    async def _follow(self, keys: Sequence[Key]) -> None:
        """Have the index follow at once if that can be had; else the reconciler will."""
        try:
            await self._index.follow(keys)
        except IndexUnavailableError as error:
            log.warning("tools_indexed_later", tools=len(keys), reason=str(error))

    async def _change(self, project: str, tool_id: str, change: Callable[[ToolRecord], ToolRecord]) -> ToolRecord:
        for _ in range(_TRIES):
            stored = await self._tools.get(project, tool_id)
            if stored is None or stored.record is None:
                raise ToolMissingError(project, tool_id)
            changed = change(stored.record)
            if changed is not stored.record and not await self._put(changed, stored.revision):
                continue
            await self._follow([(project, tool_id)])
            return changed
        raise ToolConflictError(project, tool_id)

    async def _remove_one(self, project: str, tool_id: str, source: str | None) -> bool:
        for _ in range(_TRIES):
            stored = await self._tools.get(project, tool_id)
            if stored is None or stored.record is None or source not in {None, stored.record.tool.source}:
                return False
            try:
                await self._tools.delete(stored.record, stored.revision)
            except ToolConflictError:
                continue
            return True
        raise ToolConflictError(project, tool_id)

    async def _put(self, record: ToolRecord, revision: int) -> bool:
        try:
            await self._tools.put(record, revision)
        except ToolConflictError:
            return False
        return True

    async def _ids_of(self, project: str, source: str | None) -> Sequence[str]:
        return [record.id async for record in self._tools.all(project) if record.tool.source == source]


def _read(request: PutTools) -> tuple[dict[int, ToolPut], list[_Candidate]]:
    """What can be taken, and results of what cannot. Of an id that is there twice, the last is taken."""
    results, last = dict[int, ToolPut](), dict[str, _Candidate]()
    for at, value in enumerate(request.tools):
        try:
            tool = read_description(value, request.source)
        except DescriptionError as error:
            results[at] = ToolPut(id=id_of(value), outcome=ToolPutOutcome.REJECTED, error=str(error))
            continue
        described = Described(request.project, tool, digest_of(tool), request.review_changes)
        if (earlier := last.get(tool.id)) is not None:
            again = f"is described again further down, as number {at + 1}, which is taken"
            results[earlier.at] = ToolPut(id=tool.id, outcome=ToolPutOutcome.REJECTED, error=again)
        last[tool.id] = _Candidate(at, described)
    return results, list(last.values())


def _result(candidate: _Candidate) -> ToolPut:
    decision = candidate.decision
    if decision is None:
        raise AssertionError("each candidate of a batch is decided, or the batch raises")
    return ToolPut(
        id=candidate.described.tool.id,
        outcome=decision.outcome,
        error=decision.error,
        findings=decision.findings[:_FINDINGS_TOLD],
    )
