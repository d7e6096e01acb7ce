"""What is kept in memory of each tool, for lists of them and for telling what did not change."""

import sys
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.indexer.tools import CatalogueTool, ListTools, ToolState, ToolSummary, ToolType

_GIST_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class ListedTool:
    """Some 800 bytes of a tool, whatever the size of its record."""

    id: str
    tool_type: ToolType
    state: ToolState
    source: str
    tags: tuple[str, ...]
    """Whatever their case was."""
    settled: str | None
    """The digest that changes nothing and has nothing to be told when it is described again; None when any has."""
    summary: bytes
    """Its `ToolSummary` as JSON: a fifth of the memory of the object."""

    def fits(self, request: ListTools) -> bool:
        """Whether it is among what is asked for, apart from the text in it."""
        return (
            (not request.tool_types or self.tool_type in request.tool_types)
            and (not request.states or self.state in request.states)
            and request.source in {None, self.source}
            and (request.tag is None or request.tag.casefold() in self.tags)
        )


def listed_of(tool: CatalogueTool) -> ListedTool:
    """What is kept of a tool."""
    described = tool.tool
    return ListedTool(
        id=described.id,
        tool_type=described.tool_type,
        state=tool.state,
        source=sys.intern(described.source),
        tags=tuple(sys.intern(tag.casefold()) for tag in described.tags),
        settled=tool.digest if tool.state is ToolState.ACTIVE and not tool.findings else None,
        summary=_summary(tool).model_dump_json().encode(),
    )


def _summary(tool: CatalogueTool) -> ToolSummary:
    described = tool.tool
    # Not validated: a record was, and what it says of a skill by the rules of skills.
    return ToolSummary.model_construct(
        id=described.id,
        name=described.name,
        description=described.description[:_GIST_CHARS],
        tool_type=described.tool_type,
        source=described.source,
        tags=described.tags,
        state=tool.state,
        findings=len(tool.findings),
        updated_at=tool.updated_at,
    )
