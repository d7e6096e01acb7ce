"""Registry of tools that are not skills: describe, accept, disable and remove them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Protocol

import structlog
from pydantic import JsonValue

from skillbus.contracts.indexer.tools import PutTools, ToolPut, ToolPutOutcome, ToolsPut
from skillbus.indexer.domain.catalogue.entry import ToolEntry, digest_entry, make_tool_entry
from skillbus.indexer.domain.catalogue.ports import ListedTools, ToolCatalogue
from skillbus.indexer.domain.catalogue.tool import ToolRecord, hash_description
from skillbus.indexer.domain.errors import NothingNamedError, ToolChangedError, ToolMissingError
from skillbus.indexer.domain.index.batches import gather_all
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.record.ports import RecordUpdate
from skillbus.indexer.domain.record.putter import ATTEMPTS, PendingPut, RecordPutter, parse_values
from skillbus.indexer.domain.record.values import read_id
from skillbus.indexer.domain.tool.description import (
    ReviewedDescription,
    ToolDecision,
    accept_pending,
    decide_description,
    parse_description,
)

_REPORTED_FINDINGS: Final = 5
"""Findings of one tool in the reply to `put_tools`; the record has all."""

log = structlog.get_logger(__name__)

_ToolPutting = PendingPut[ReviewedDescription, ToolRecord, ToolDecision]


class ToolAnnouncer(Protocol):
    """Publishes events about tools."""

    async def announce_held(self, record: ToolRecord, reason: str) -> None:
        """Announce that a tool waits for an operator. Returns when the event is stored."""


@dataclass(frozen=True, slots=True)
class ToolRules:
    """Decides descriptions of tools."""

    listed: ListedTools
    announcer: ToolAnnouncer
    now: Callable[[], datetime]

    async def find_unchanged(self, project: str, puts: Sequence[_ToolPutting]) -> Sequence[_ToolPutting]:
        listed = await self.listed.find([put.key for put in puts])
        return [p for p in puts if (tool := listed.get(p.key)) and tool.unchanged_digest == p.value.digest]

    def decide_unchanged(self) -> ToolDecision:
        return ToolDecision(ToolPutOutcome.UNCHANGED)

    def decide_value(
        self, value: ReviewedDescription, earlier: ToolRecord | None
    ) -> tuple[ToolDecision, ToolRecord | None]:
        decision = decide_description(value, earlier, self.now())
        return decision, decision.record

    def make_entry(self, record: ToolRecord) -> ToolEntry | None:
        return make_tool_entry(record)

    async def report_written(self, puts: Sequence[_ToolPutting]) -> None:
        """Announce the tools that wait for an operator from now on."""
        held = [(p.record, p.decision.held_for) for p in puts if p.record and p.decision and p.decision.held_for]
        await gather_all(self.announcer.announce_held(record, reason) for record, reason in held)


@dataclass(frozen=True, slots=True)
class ToolRegistry:
    """Changes the records of tools.

    Methods raise RequestError when the catalogue is unavailable, ToolMissingError if the tool to change does not exist,
    and WriteConflictError if it changes all the time.
    """

    tools: ToolCatalogue
    putter: RecordPutter[ReviewedDescription, ToolRecord, ToolDecision, ToolEntry]
    now: Callable[[], datetime]

    async def put_tools(self, request: PutTools) -> ToolsPut:
        """Take descriptions, each by itself. An unchanged one is neither written nor embedded again."""
        refused, puts = parse_values(request.tools, partial(_parse_tool, request))
        indexed = await self.putter.put_values(request.project, puts)
        results = {put.at: _report(put) for put in puts}
        for at, error in refused.items():
            results[at] = ToolPut(id=read_id(request.tools[at]), outcome=ToolPutOutcome.REJECTED, error=error)
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
        ids = list(tool_ids) or [
            record.id async for record in self.tools.iterate_records(project) if record.tool.source == source
        ]
        keys = [(project, tool_id) for tool_id in ids]
        removed = await self.putter.remove_records(keys, lambda record: source in {None, record.tool.source})
        log.info("tools_removed", project=project, tools=len(removed), source=source)
        return [tool_id for _, tool_id in removed]

    async def _change(self, project: str, tool_id: str, change: Callable[[ToolRecord], ToolRecord]) -> ToolRecord:
        key = (project, tool_id)
        for _ in range(ATTEMPTS):
            stored = await self.tools.load_record(key)
            if stored is None or stored.record is None:
                raise ToolMissingError(project, tool_id)
            changed = change(stored.record)
            if changed is not stored.record:
                [revision] = await self.tools.save_records([RecordUpdate(changed, stored.revision)])
                if revision is None:
                    continue
            await self.putter.try_sync([key])
            return changed
        raise self.putter.make_conflict(key)


def make_registry(
    tools: ToolCatalogue,
    listed: ListedTools,
    index: Index[ToolEntry],
    announcer: ToolAnnouncer,
    now: Callable[[], datetime],
) -> ToolRegistry:
    """Make the registry of an index of tools."""
    return ToolRegistry(tools, RecordPutter(tools, index, ToolRules(listed, announcer, now), "tool"), now)


def _parse_tool(request: PutTools, at: int, value: JsonValue) -> _ToolPutting:
    tool = parse_description(value, request.source)
    described = ReviewedDescription(request.project, tool, hash_description(tool), request.review_changes)
    return PendingPut(at, (request.project, tool.id), described, digest_entry(tool, described.digest))


def _report(put: _ToolPutting) -> ToolPut:
    decision = put.get_decision()
    return ToolPut(
        id=put.value.tool.id,
        outcome=decision.outcome,
        error=decision.error,
        findings=decision.findings[:_REPORTED_FINDINGS],
    )
