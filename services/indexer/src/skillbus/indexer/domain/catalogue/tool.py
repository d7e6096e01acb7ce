"""The catalogue's record of a tool that is no skill, and the port to where records are kept."""

import hashlib
import json
from datetime import datetime
from typing import Final

from skillbus.contracts.indexer.tools import CatalogueTool, ToolDescription, ToolFieldChange, ToolFinding, ToolState
from skillbus.contracts.message import Message, Project

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
    changes: tuple[ToolFieldChange, ...] = ()
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
