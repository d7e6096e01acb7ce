"""Interfaces of the agent to the outside: sessions with servers, the catalogue, the sandbox, files, and events."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pydantic import JsonValue

from skillbus.agent.domain.servers.registration import FileServerRecord, ServerKey
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.contracts.agent.mcp_servers import McpServerSeen, RegisterMcpServer
from skillbus.contracts.endpoint import Event
from skillbus.contracts.indexer.tools import CatalogueTool, ToolDescription, ToolPut, ToolSummary
from skillbus.contracts.message import Content
from skillbus.contracts.sandbox.skill_runs import RunSkill, SkillRan


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
        """Call a tool, and return its answer of any size. A call that is cancelled or too slow is cancelled there too.

        Raises ServerFailedError, CallTimedOutError.
        """


Registration: TypeAlias = RegisterMcpServer | FileServerRecord
ReportSlowStart: TypeAlias = Callable[[float], Awaitable[None]]
"""Is told that a command is still starting for the first time, and how many seconds that may take in all."""
OpenSession: TypeAlias = Callable[
    [Registration, Callable[[], None], ReportSlowStart | None], AbstractAsyncContextManager[ToolSession]
]
"""Opens a session with a server for the duration of the context. Raises ServerFailedError.

It calls the first function when the server reports that its list changed, and when the session ends. The second one is
given for the first start of a server. A command then has its `start_timeout_s`, in which it may download a package.
"""

AnnounceServer: TypeAlias = Callable[[Event[McpServerSeen], McpServerSeen], Awaitable[None]]
"""Publishes an event about a server. Raises RequestError when it is not stored."""


class AgentCatalogue(Protocol):
    """The catalogue of tools. Raises RequestError when it refuses a request or cannot be reached."""

    async def put_tools(self, project: str, source: str, tools: Sequence[ToolDescription]) -> tuple[ToolPut, ...]:
        """Add or update tools. Updated ones wait for an operator, unless they are builtin."""

    async def remove_tools(self, project: str, source: str, ids: Sequence[str] | None = None) -> int:
        """Remove tools of a source, all of them if no ids are given, and return their number."""

    async def list_tools(self, project: str, source: str | None = None) -> tuple[ToolSummary, ...]:
        """Return the tools of a source, or all MCP and builtin tools, in any state."""

    async def get_tool(self, project: str, tool_id: str) -> CatalogueTool | None:
        """Return a tool, or None."""


class ServerChangeFeed(Protocol):
    """Receives registrations and removals of all replicas."""

    async def next(self, within_s: float) -> ServerKey | None:
        """Return the next server that was written or removed.

        None means that every server should be looked at: after `within_s`, and when changes may have been missed.
        """


class SkillRuns(Protocol):
    """The sandbox."""

    async def run(self, request: RunSkill, within_s: float, cancelled: asyncio.Event) -> SkillRan:
        """Run a skill. When `cancelled` is set, end the run and return its output so far. Raises RequestError."""


class CallFiles(Protocol):
    """Files of calls, kept for one day. Every method raises RequestError if the store is away."""

    async def put(self, project: str, run_id: str, name: str, data: bytes) -> None:
        """Store a file of a call."""

    async def read_start(self, content: Content, max_bytes: int) -> bytes:
        """Return at most the first `max_bytes` of a content."""


class CallLines(Protocol):
    """Lines by which calls are cancelled on the replica that makes them. Methods raise RequestError."""

    def listen(self, work_id: str, project: str, /) -> AbstractAsyncContextManager[asyncio.Event]:
        """Yield an event that is set when the call is cancelled."""

    async def cancel(self, work_id: str, project: str, /) -> bool:
        """Cancel a call of a project; return False if no replica makes it."""
