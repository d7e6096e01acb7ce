"""The catalogue's record of a tool that is no skill, and the port to where records are kept."""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from skillbus.contracts.message import Message, Project
from skillbus.contracts.tools import CatalogueTool, FieldChange, ToolDescription, ToolFinding, ToolState
from skillbus.indexer.domain.entries import Key

_SORTED: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True)


class ToolRecord(Message):
    """A tool as it is described, and what an operator decided about it."""

    project: Project
    tool: ToolDescription
    digest: str
    """SHA-256 of `tool`."""
    findings: tuple[ToolFinding, ...] = ()
    """About `tool`, or about `pending` where there is one."""
    pending: ToolDescription | None = None
    pending_digest: str | None = None
    changes: tuple[FieldChange, ...] = ()
    accepted: bool = True
    """False of a tool that waits for an operator since it came."""
    disabled: bool = False
    created_at: datetime
    updated_at: datetime

    @property
    def id(self) -> str:
        """Of the tool, in its project."""
        return self.tool.id

    @property
    def held(self) -> bool:
        """Whether an operator has to accept something."""
        return self.pending is not None or not self.accepted

    @property
    def awaited_digest(self) -> str:
        """Of the description that an operator would accept."""
        return self.pending_digest or self.digest

    @property
    def state(self) -> ToolState:
        """Whether it can be found and called."""
        if self.disabled:
            return ToolState.DISABLED
        return ToolState.QUARANTINED if self.held else ToolState.ACTIVE

    def shown(self) -> CatalogueTool:
        """The record as callers see it."""
        return CatalogueTool(
            project=self.project,
            tool=self.tool,
            state=self.state,
            digest=self.digest,
            findings=self.findings,
            pending=self.pending,
            pending_digest=self.pending_digest,
            changes=self.changes,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


def digest_of(tool: ToolDescription) -> str:
    """SHA-256 of a description, hex: the same whatever the order of its keys."""
    return hashlib.sha256(_SORTED.encode(dict(tool)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredTool:
    """A record and its revision, which the next write must name."""

    record: ToolRecord | None
    """None of a tool that was removed, or whose record is damaged: its revision has to be named all the same."""
    revision: int


@dataclass(frozen=True, slots=True)
class ToolWrite:
    """A record to be written over a revision."""

    record: ToolRecord
    over: int
    """0 for a tool that never was there."""


class ToolCatalogue(Protocol):
    """Where records of tools are kept. Every method raises RequestError when that cannot be had."""

    async def get(self, project: str, tool_id: str) -> StoredTool | None:
        """One record; None of a tool that never was there."""
        ...

    async def get_many(self, project: str, tool_ids: Sequence[str]) -> Mapping[str, StoredTool]:
        """Those of them that are or were there."""
        ...

    async def put(self, record: ToolRecord, revision: int) -> int:
        """Write a record over `revision`, 0 for none, and tell its own.

        Raises ToolConflictError when another was written since.
        """
        ...

    async def put_many(self, writes: Sequence[ToolWrite]) -> Sequence[int | None]:
        """Write records, each by itself, and tell their own revisions; None of one that another was written of since.

        What raises may have written some of them.
        """
        ...

    async def delete(self, record: ToolRecord, revision: int) -> None:
        """Remove a record. Raises ToolConflictError when it was written since `revision`."""
        ...

    async def none_since(self, revisions: Mapping[Key, int]) -> bool:
        """Whether nobody, here or elsewhere, has written any of these tools since its revision; False when in doubt."""
        ...

    async def count(self) -> int:
        """Records of all projects, damaged ones among them."""
        ...

    def all(self, project: str | None = None) -> AsyncIterator[ToolRecord]:
        """Every record, or those of a project, in no order."""
        ...
