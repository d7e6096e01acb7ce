"""What the agent needs of the world: sessions with servers, the catalogue, and somebody to tell."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from skillbus.agent.domain.answer import ToolAnswer
from skillbus.agent.domain.registered import ServerKey
from skillbus.contracts.agent.mcp_servers import McpServerSeen, RegisterMcpServer
from skillbus.contracts.indexer.tools import CatalogueTool, ToolDescription, ToolPut, ToolSummary


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a server said when the session began."""

    name: str | None
    version: str | None
    protocol: str | None


class Session(Protocol):
    """An open session with a server."""

    @property
    def greeting(self) -> Greeting:
        """What it called itself."""
        ...

    def check(self) -> None:
        """Raises ServerFailedError when the session is over."""
        ...

    async def list_tools(self) -> tuple[JsonValue, ...]:
        """All tools, as the server sent them: the whole list or none. Raises ServerFailedError."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, JsonValue], timeout_s: float) -> ToolAnswer:
        """Call a tool. Raises ServerFailedError, CallTimedOutError."""
        ...


class Sessions(Protocol):
    """Opens sessions."""

    def open(self, server: RegisterMcpServer, on_change: Callable[[], None]) -> AbstractAsyncContextManager[Session]:
        """A session that begins and ends with the context.

        `on_change` is called when the server says that its list changed, and when the session is over.

        Raises:
            ServerFailedError: when it cannot be had.
        """
        ...


class Catalogue(Protocol):
    """The catalogue of tools. Raises RequestError for what it refuses, and when it cannot be reached."""

    async def put(self, project: str, source: str, tools: Sequence[ToolDescription]) -> tuple[ToolPut, ...]:
        """Describe tools; what changed waits for an operator."""
        ...

    async def remove(self, project: str, source: str, ids: Sequence[str] | None = None) -> int:
        """Take tools of a source out, all if no ids are given; how many there were."""
        ...

    async def tools(self, project: str, source: str | None = None) -> tuple[ToolSummary, ...]:
        """Tools of a source, or all MCP and builtin tools, whatever their state."""
        ...

    async def get(self, project: str, tool_id: str) -> CatalogueTool | None:
        """A tool; None if there is none."""
        ...


class Announcer(Protocol):
    """Publishes facts. Raises RequestError when they are not taken."""

    async def listed(self, fact: McpServerSeen) -> None:
        """The catalogue has a server's tools as they are."""
        ...

    async def failed(self, fact: McpServerSeen) -> None:
        """A server could not be listed."""
        ...


class Changes(Protocol):
    """Hears of every replica's registrations and removals."""

    async def next(self, within_s: float) -> ServerKey | None:
        """The next server that was written or removed; None when all should be looked at: now and then, and when
        something may have been missed."""
        ...
