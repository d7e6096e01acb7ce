"""Catalogue record of a tool that is not a skill."""

import hashlib
import json
from datetime import datetime
from typing import Final

from skillbus.contracts.indexer.tools import CatalogueTool, ToolDescription, ToolFieldChange, ToolFinding, ToolState
from skillbus.contracts.message import Message, Project

_SORTED: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True)


class ToolRecord(Message):
    """A tool as it is described, and an operator's decisions about it."""

    project: Project
    tool: ToolDescription
    digest: str
    """SHA-256 of `tool`."""
    findings: tuple[ToolFinding, ...] = ()
    """Findings about `pending` if there is one, else about `tool`."""
    pending: ToolDescription | None = None
    pending_digest: str | None = None
    changes: tuple[ToolFieldChange, ...] = ()
    accepted: bool = True
    """False while a new tool waits for an operator."""
    disabled: bool = False
    created_at: datetime
    updated_at: datetime

    @property
    def id(self) -> str:
        """Id of the tool in its project."""
        return self.tool.id

    @property
    def held(self) -> bool:
        """True if an operator has to accept something."""
        return self.pending is not None or not self.accepted

    @property
    def awaited_digest(self) -> str:
        """Digest of the description that an operator would accept."""
        return self.pending_digest or self.digest

    @property
    def state(self) -> ToolState:
        """State that decides whether the tool can be found and called."""
        if self.disabled:
            return ToolState.DISABLED
        return ToolState.QUARANTINED if self.held else ToolState.ACTIVE

    def to_catalogue_tool(self) -> CatalogueTool:
        """Convert the record to the form that callers see."""
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


def hash_description(tool: ToolDescription) -> str:
    """Return the SHA-256 of a description, hex. The order of keys does not matter."""
    return hashlib.sha256(_SORTED.encode(dict(tool)).encode()).hexdigest()
