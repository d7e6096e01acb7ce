"""Catalogue record of a tool that is not a skill, and the form in which all tools are kept in memory."""

import hashlib
import json
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from skillbus.contracts.indexer.tools import (
    CatalogueTool,
    ListTools,
    ToolDescription,
    ToolFieldChange,
    ToolFinding,
    ToolState,
    ToolSummary,
    ToolType,
)
from skillbus.contracts.message import Message, Project
from skillbus.indexer.domain.index.ports import Key

_SORTED: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True)
_GIST_CHARACTERS: Final = 200


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
    approval_mark: bool | None = None
    """Decision of an operator whether calls need an approval; None if there is none."""
    created_at: datetime
    updated_at: datetime

    @property
    def id(self) -> str:
        return self.tool.id

    @property
    def key(self) -> Key:
        return self.project, self.tool.id

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

    @property
    def requires_approval(self) -> bool:
        """True if an agent's calls wait for a person: by the operator's decision, or without one by the server's."""
        return states_destruction(self.tool) if self.approval_mark is None else self.approval_mark

    def to_catalogue_tool(self) -> CatalogueTool:
        return CatalogueTool(
            project=self.project,
            tool=self.tool,
            state=self.state,
            digest=self.digest,
            findings=self.findings,
            pending=self.pending,
            pending_digest=self.pending_digest,
            changes=self.changes,
            requires_approval=self.requires_approval,
            approval_mark=self.approval_mark,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


def hash_description(tool: ToolDescription) -> str:
    """Return the SHA-256 of a description, hex. The order of keys does not matter."""
    return hashlib.sha256(_SORTED.encode(dict(tool)).encode()).hexdigest()


def states_destruction(tool: ToolDescription) -> bool:
    """Return True if the MCP server of a tool says itself that calls may destroy something.

    MCP has true as the default of `destructiveHint`. That default is not applied: it would stop nearly every tool.
    """
    hints = tool.metadata.get("annotations")
    if tool.tool_type is not ToolType.MCP or not isinstance(hints, dict):
        return False
    return hints.get("destructiveHint") is True and hints.get("readOnlyHint") is not True


@dataclass(frozen=True, slots=True)
class ListedTool:
    """Some 800 bytes of a tool, independent of the size of its record."""

    id: str
    tool_type: ToolType
    state: ToolState
    source: str
    tags: tuple[str, ...]
    """Tags in lower case."""
    unchanged_digest: str | None
    """Digest of a description that changes nothing and has no findings; None if there is no such description."""
    indexed: bool
    """False if the record says that the index does not have the skill yet. Tools do not record it: always True."""
    summary: bytes
    """Its `ToolSummary` as JSON, which takes a fifth of the memory of the object."""

    def matches(self, request: ListTools) -> bool:
        """Return True if the tool matches the filters of a request, except the text."""
        return (
            (not request.tool_types or self.tool_type in request.tool_types)
            and (not request.states or self.state in request.states)
            and request.source in {None, self.source}
            and (request.tag is None or request.tag.casefold() in self.tags)
        )


def list_tool(tool: CatalogueTool, *, indexed: bool = True) -> ListedTool:
    described = tool.tool
    # Not validated: the record of a tool was, and a skill follows the rules of skills.
    summary = ToolSummary.model_construct(
        id=described.id,
        name=described.name,
        description=described.description[:_GIST_CHARACTERS],
        tool_type=described.tool_type,
        source=described.source,
        tags=described.tags,
        state=tool.state,
        findings=len(tool.findings),
        requires_approval=tool.requires_approval,
        approval_mark=tool.approval_mark,
        updated_at=tool.updated_at,
    )
    return ListedTool(
        id=described.id,
        tool_type=described.tool_type,
        state=tool.state,
        source=sys.intern(described.source),
        tags=tuple(sys.intern(tag.casefold()) for tag in described.tags),
        unchanged_digest=tool.digest if tool.state is ToolState.ACTIVE and not tool.findings else None,
        indexed=indexed,
        summary=summary.model_dump_json().encode(),
    )
