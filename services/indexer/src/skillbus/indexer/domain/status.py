"""Status of the indexer."""

from skillbus.contracts.indexer.skills import IndexerStatus
from skillbus.contracts.indexer.tools import ToolState, ToolType
from skillbus.indexer.domain.catalogue.entry import ToolEntry
from skillbus.indexer.domain.catalogue.ports import ListedTools
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index.index import Index, IndexCounts


async def read_status(listed: ListedTools, index: Index[ToolEntry]) -> IndexerStatus:
    """Count the catalogue and the index. The counts of the index are absent when it is unavailable."""
    tools = await listed.list_all_tools()
    skills = [tool for tool in tools if tool.tool_type is ToolType.SKILL]
    points: int | None
    try:
        counts = await index.count_points()
        points = counts.points
    except IndexUnavailableError:
        counts, points = IndexCounts(None, None, 0), None
    return IndexerStatus(
        skills=len(skills),
        tools=len(tools) - len(skills),
        waiting=sum(skill.state is ToolState.ACTIVE and not skill.indexed for skill in skills),
        points=points,
        collection=counts.collection,
        model=counts.model,
    )
