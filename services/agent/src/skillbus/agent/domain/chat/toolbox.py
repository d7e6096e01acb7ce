"""The tools that a model is shown in a turn. Only these can be called, also after they left.

Tools join when they are found, at the end of the list, and leave when they were not used for some steps. The order of
the others never changes, so that the beginning of each request stays the same and providers can cache it.
"""

import difflib
from collections.abc import Iterable
from typing import Final

from pydantic_core import to_json

from skillbus.contracts.agent.chat import FunctionDefinition
from skillbus.contracts.message import Message

KEEP_STEPS: Final = 5
"""Steps that an unused tool stays."""
_NEAR_NAMES: Final = 3
BYTES_A_TOKEN: Final = 4


class ShownTool(Message):
    """Function that stands for a tool, or for one action of a skill."""

    function: FunctionDefinition
    id: str
    action: str | None = None
    always: bool = False
    """True if it never leaves."""
    instructions_only: bool = False
    """True for a skill without a script. It is named to the model and is no function."""
    used_at: int = 0
    """Step in which it was shown first or called last."""

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.name


class Toolbox(Message):
    """Tools of a turn. It is a value: methods return the changed one."""

    shown: tuple[ShownTool, ...] = ()
    left: tuple[ShownTool, ...] = ()
    """Tools that were shown before. A call of one brings it back."""

    def add_tools(self, tools: Iterable[ShownTool], step: int) -> "Toolbox":
        """Return the toolbox with these tools too. Tools that are shown already count as used."""
        joined = {tool.name: tool for tool in self.shown}
        for tool in tools:
            known = joined.get(tool.name, tool)
            joined[tool.name] = known.model_copy(update={"used_at": step, "always": known.always or tool.always})
        return Toolbox(shown=tuple(joined.values()), left=tuple(tool for tool in self.left if tool.name not in joined))

    def drop_unused(self, step: int) -> "Toolbox":
        """Return the toolbox without the tools that were not used in the last steps before this one."""
        leaving = [tool for tool in self.shown if not tool.always and step - tool.used_at > KEEP_STEPS]
        if not leaving:
            return self
        names = {tool.name for tool in leaving}
        return Toolbox(shown=tuple(tool for tool in self.shown if tool.name not in names), left=(*self.left, *leaving))

    def drop_tool(self, name: str) -> "Toolbox":
        """Return the toolbox without a tool, which cannot be called again in this turn unless it is found again."""
        return Toolbox(
            shown=tuple(tool for tool in self.shown if tool.name != name),
            left=tuple(tool for tool in self.left if tool.name != name),
        )

    def find_tool(self, name: str) -> ShownTool | None:
        """Return the tool that a function stands for, also one that has left."""
        callable_tools = (tool for tool in (*self.shown, *self.left) if not tool.instructions_only)
        return next((tool for tool in callable_tools if tool.name == name), None)

    def list_near_names(self, name: str) -> list[str]:
        """Return the names of functions that resemble a wrong one, nearest first."""
        names = [tool.name for tool in self.shown if not tool.instructions_only]
        return difflib.get_close_matches(name, names, _NEAR_NAMES, cutoff=0.4)

    @property
    def functions(self) -> tuple[FunctionDefinition, ...]:
        """Definitions for the model."""
        return tuple(tool.function for tool in self.shown if not tool.instructions_only)


def estimate_tokens(functions: Iterable[FunctionDefinition]) -> int:
    """Return the estimated tokens of definitions: bytes of their JSON / 4."""
    return sum(len(to_json(function, exclude_none=True)) for function in functions) // BYTES_A_TOKEN
