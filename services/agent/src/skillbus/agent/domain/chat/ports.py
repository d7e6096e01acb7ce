"""Interfaces of a turn to the outside: tools, knowledge, stored results and stored turns."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from skillbus.agent.domain.approvals import ApproveCall
from skillbus.agent.domain.builtins.tool import TellCall
from skillbus.agent.domain.chat.toolbox import ShownTool
from skillbus.agent.domain.chat.turn_state import TurnState
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.contracts.agent.tool_calls import CallTool
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.retriever.knowledge_search import BuildContext, ContextBuilt

CallAnyTool: TypeAlias = Callable[[CallTool, str, float, ApproveCall, TellCall], Awaitable[ToolAnswer]]
"""Calls a tool with a `run_id`, within seconds after its approval, if it needs one, and tells of a program's calls.

Raises AgentError or RequestError if it was not called."""
BuildKnowledge: TypeAlias = Callable[[BuildContext], Awaitable[ContextBuilt]]
"""Builds a context. Raises RequestError."""
FindChatModels: TypeAlias = Callable[[str | None], Awaitable[Sequence[ChatModel]]]
"""Returns the models to try, in order. Raises RequestError: `not_found`, or `model_unavailable` if there is none."""


@dataclass(frozen=True, slots=True)
class CatalogueSize:
    """Callable tools of a project, and the estimated tokens of all their definitions."""

    tools: int
    tokens: int


class FunctionFinder(Protocol):
    """Tools as functions for a model. Every method raises RequestError if a service is away."""

    async def find_functions(
        self, project: str, query: str, limit: int, tool_types: Sequence[ToolType]
    ) -> tuple[ShownTool, ...]:
        """Return the functions of the tools nearest to a query, best first. Those that cannot be called are left out.

        A skill that is instructions only is a function without a call: see `ShownTool.instructions_only`.
        """
        ...

    async def describe_tools(self, project: str, ids: Sequence[str]) -> tuple[ShownTool, ...]:
        """Return the functions of these tools, in this order. Unknown tools are left out."""
        ...

    def get_catalogue_size(self, project: str) -> CatalogueSize | None:
        """Return the last known size of all callable tools of a project. None before it is known."""
        ...


class ResultStore(Protocol):
    """Whole results of tools that are too large for a model. Every method raises RequestError if the bus is away."""

    async def put(self, project: str, run_id: str, name: str, data: bytes) -> None:
        """Store a file of a call."""
        ...


class TurnStore(Protocol):
    """Turns that wait for the results of their caller's tools, kept for an hour. Methods raise RequestError."""

    async def save_turn(self, state: TurnState) -> None:
        """Store a turn under its id."""
        ...

    async def load_turn(self, project: str, turn_id: str) -> TurnState | None:
        """Return a stored turn of a project, or None."""
        ...
