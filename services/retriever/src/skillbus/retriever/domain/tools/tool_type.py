"""Which kind of tool a stored point is (specification tool-type.md, 3.4 and 3.5)."""

import structlog

from skillbus.contracts.indexer.tools import ToolType


def tool_type_of(tool_id: str, stored: str | None) -> ToolType | None:
    """`skill` where the point does not say, None where it says something else than the three: leave the hit out."""
    if stored is None:
        structlog.get_logger().debug("tool_type_absent", tool_id=tool_id, assumed=ToolType.SKILL.value)
        return ToolType.SKILL
    try:
        return ToolType(stored)
    except ValueError:
        structlog.get_logger().warning("tool_type_unknown", tool_id=tool_id, tool_type=stored)
        return None
