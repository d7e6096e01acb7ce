"""List of all tools in memory."""

from skillbus.common.bus.connection import Bus
from skillbus.contracts.resources import CATALOGUE
from skillbus.indexer.adapters.kv_catalogue import make_tool_key, open_skill_records, open_tool_records
from skillbus.indexer.adapters.kv_listed_records import KvListedRecords, ListedKind
from skillbus.indexer.domain.catalogue.listing import skill_to_catalogue_tool
from skillbus.indexer.domain.catalogue.tool import ListedTool, list_tool


def open_listed_tools(bus: Bus) -> KvListedRecords[ListedTool]:
    """Return the list of skills and other tools, ordered by id."""
    skills, tools = open_skill_records(bus), open_tool_records(bus)

    def parse(key: str, value: bytes) -> ListedTool | None:
        """Parse a value of the bucket. Return None if it is neither a tool nor a skill."""
        kind = key.partition(".")[2].partition(".")[0]
        if kind == "tool":
            tool = tools.parse_value(key, value)
            return list_tool(tool.to_catalogue_tool()) if tool else None
        if kind == "skill":
            skill = skills.parse_value(key, value)
            return list_tool(skill_to_catalogue_tool(skill), indexed=skill.skill.indexed) if skill else None
        return None

    kind = ListedKind(parse, lambda key: make_tool_key(*key), lambda tool: tool.id)
    return KvListedRecords(bus, CATALOGUE, kind)
