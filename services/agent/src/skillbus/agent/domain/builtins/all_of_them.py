"""All builtin tools, as the rest of the agent calls them."""

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from skillbus.agent.domain.answer import ToolAnswer
from skillbus.agent.domain.builtins.errors import ToolFailedError
from skillbus.agent.domain.builtins.tool import BuiltinTool
from skillbus.agent.domain.errors import ToolUnknownError
from skillbus.contracts.indexer.tools import ToolDescription


class BuiltinTools:
    """Tools by name; the port `Builtins`."""

    def __init__(self, tools: Iterable[BuiltinTool]) -> None:
        self._tools = {tool.description.name: tool for tool in sorted(tools, key=lambda tool: tool.description.name)}

    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def describe(self) -> tuple[ToolDescription, ...]:
        return tuple(tool.description for tool in self._tools.values())

    async def call(self, project: str, name: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        """See the port. What a tool cannot do is its answer, and no error."""
        if (tool := self._tools.get(name)) is None:
            raise ToolUnknownError(f"there is no builtin tool {name[:100]!r}; there are {', '.join(self._tools)}")
        try:
            answer = await tool.call(project, arguments)
        except ToolFailedError as error:
            return ToolAnswer(text=str(error), is_error=True)
        return ToolAnswer(text=answer.text, structured=answer.structured)
