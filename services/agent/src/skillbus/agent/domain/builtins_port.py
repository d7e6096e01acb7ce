"""The builtin tools as the rest of the agent sees them."""

from collections.abc import Mapping
from typing import Protocol

from pydantic import JsonValue

from skillbus.agent.domain.answer import ToolAnswer
from skillbus.contracts.indexer.tools import ToolDescription


class Builtins(Protocol):
    """All builtin tools. Those that are switched off are not among them."""

    def names(self) -> tuple[str, ...]:
        """Names without `builtin:`, in order."""
        ...

    def describe(self) -> tuple[ToolDescription, ...]:
        """What goes into the catalogue: id `builtin:<name>`, source `builtin`, ordered by name."""
        ...

    async def call(self, project: str, name: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        """Call one. The arguments fit its `parameters`; how long it may take, its caller decides.

        A tool that fails at its work says so by `ToolAnswer(is_error=True, text=...)`.

        Raises:
            ToolUnknownError: no builtin has this name.
            ArgumentsInvalidError: the arguments fit the schema, but make no sense.
            RequestError: another service that it needs did not do its part.
        """
        ...
