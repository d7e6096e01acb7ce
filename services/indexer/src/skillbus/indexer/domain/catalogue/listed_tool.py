"""A tool as it is kept in memory, for lists and to detect unchanged descriptions."""

import sys
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.indexer.tools import CatalogueTool, ListTools, ToolState, ToolSummary, ToolType

_GIST_CHARACTERS: Final = 200


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
    """Convert a tool to the form that is kept in memory."""
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
