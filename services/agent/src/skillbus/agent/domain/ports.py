"""Interfaces of the agent to the outside: sessions with servers, the catalogue, events, and the builtin tools."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from skillbus.agent.domain.servers.registration import ServerKey
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.contracts.agent.mcp_servers import McpServerSeen, RegisterMcpServer
from skillbus.contracts.indexer.tools import CatalogueTool, ToolDescription, ToolPut, ToolSummary


@dataclass(frozen=True, slots=True)
class ServerGreeting:
    """Name and versions that a server reports when a session begins."""

    name: str | None
    version: str | None
    protocol: str | None


class ToolSession(Protocol):
    """An open session with a server."""

    @property
    def greeting(self) -> ServerGreeting:
        """The server's greeting."""

    def check(self) -> None:
        """Raise ServerFailedError if the session has ended."""

    async def list_tools(self) -> tuple[JsonValue, ...]:
        """Return all tools as the server sent them: the whole list or none. Raises ServerFailedError."""

    async def call(self, tool: str, arguments: Mapping[str, JsonValue], timeout_s: float) -> ToolAnswer:
        """Call a tool. Raises ServerFailedError, CallTimedOutError."""


class ToolSessions(Protocol):
    """Opens sessions."""

    def open(
        self, server: RegisterMcpServer, on_change: Callable[[], None]
    ) -> AbstractAsyncContextManager[ToolSession]:
        """Open a session for the duration of the context.

        `on_change` is called when the server reports that its list changed, and when the session ends.

        Raises:
            ServerFailedError: The session cannot be opened.
        """


class AgentCatalogue(Protocol):
    """The catalogue of tools. Raises RequestError when it refuses a request or cannot be reached."""

    async def put_tools(self, project: str, source: str, tools: Sequence[ToolDescription]) -> tuple[ToolPut, ...]:
        """Add or update tools; updated ones wait for an operator."""

    async def remove_tools(self, project: str, source: str, ids: Sequence[str] | None = None) -> int:
        """Remove tools of a source, all of them if no ids are given, and return their number."""

    async def list_tools(self, project: str, source: str | None = None) -> tuple[ToolSummary, ...]:
        """Return the tools of a source, or all MCP and builtin tools, in any state."""

    async def get_tool(self, project: str, tool_id: str) -> CatalogueTool | None:
        """Return a tool, or None."""


class ServerAnnouncer(Protocol):
    """Publishes events. Raises RequestError when they are not stored."""

    async def listed(self, fact: McpServerSeen) -> None:
        """Publish that the catalogue holds a server's current tools."""

    async def failed(self, fact: McpServerSeen) -> None:
        """Publish that a server could not be listed."""


class ServerChangeFeed(Protocol):
    """Receives registrations and removals of all replicas."""

    async def next(self, within_s: float) -> ServerKey | None:
        """Return the next server that was written or removed.

        None means that every server should be looked at: after `within_s`, and when changes may have been missed.
        """


class BuiltinToolbox(Protocol):
    """All builtin tools except those that are switched off."""

    def describe(self) -> tuple[ToolDescription, ...]:
        """Return the descriptions for the catalogue, ordered by name. Ids are `builtin:<name>`."""

    async def call(self, project: str, name: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        """Call a tool with arguments that fit its `parameters`. The caller sets the time limit.

        A tool that cannot do its work answers `ToolAnswer(is_error=True, text=...)`.

        Raises:
            ToolUnknownError: No builtin tool has this name.
            ArgumentsInvalidError: The arguments fit the schema but make no sense.
            RequestError: Another service that the tool needs failed.
        """


class BuiltinCatalogue(Protocol):
    """The builtin tools of a project in the catalogue. Its methods raise RequestError."""

    async def put_tools(self, project: str, tools: Sequence[ToolDescription]) -> tuple[ToolPut, ...]:
        """Add or update tools. Unchanged ones cost nothing."""

    async def list_ids(self, project: str) -> frozenset[str]:
        """Return the ids of the builtin tools, disabled ones included."""

    async def remove_tools(self, project: str, ids: Sequence[str]) -> None:
        """Remove tools."""
