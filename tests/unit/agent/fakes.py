"""A server, its registry and a catalogue, in memory."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import JsonValue

from skillbus.agent.domain.errors import ServerFailedError
from skillbus.agent.domain.ports import Registration, ReportSlowStart, ServerGreeting
from skillbus.agent.domain.servers.follower import FollowerPorts, FollowTiming
from skillbus.agent.domain.servers.operator_file import OperatorFileError
from skillbus.agent.domain.servers.operator_servers import OperatorServers
from skillbus.agent.domain.servers.registration import RegisteredServer, ServerKey
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.common.records import StoredRecord, WriteConflictError
from skillbus.common.testing import eventually
from skillbus.contracts.agent.mcp_servers import McpServerSeen, RegisterMcpServer
from skillbus.contracts.endpoint import Event
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import (
    CatalogueTool,
    ToolDescription,
    ToolPut,
    ToolPutOutcome,
    ToolState,
    ToolSummary,
)
from skillbus.contracts.message import Content
from skillbus.contracts.sandbox.skill_runs import RunSkill, RunStatus, SkillRan

NOW = datetime(2026, 11, 22, tzinfo=UTC)
RAW = RegisterMcpServer(name="raw", url="http://raw/mcp", timeout_s=0.5)
QUICK = FollowTiming(poll_every_s=60, settle_s=0.01, first_retry_s=0.01, last_retry_s=0.05)
WAIT_S = 5.0


class Store:
    """Servers with revisions."""

    def __init__(self) -> None:
        self.kept: dict[ServerKey, StoredRecord[RegisteredServer]] = {}
        self.revision = 0
        self.saved: list[RegisteredServer] = []

    async def load_server(self, key: ServerKey) -> StoredRecord[RegisteredServer] | None:
        return self.kept.get(key)

    async def save_server(self, server: RegisteredServer, revision: int) -> StoredRecord[RegisteredServer]:
        known = self.kept.get(server.key)
        if (known.revision if known else 0) != revision:
            raise WriteConflictError(server.key.name)
        self.revision += 1
        self.kept[server.key] = StoredRecord(server, self.revision)
        self.saved.append(server)
        return self.kept[server.key]

    async def delete_server(self, key: ServerKey) -> None:
        self.kept.pop(key, None)

    async def list_servers(self) -> tuple[RegisteredServer, ...]:
        return tuple(stored.record for stored in self.kept.values())


@dataclass(slots=True)
class Server:
    """Sessions with one server that does as a test says."""

    tools: list[JsonValue] = field(default_factory=list)
    name: str = "raw"
    opened: int = 0
    lists: int = 0
    fails: str | None = None
    """Why no session can be had."""
    hangs: bool = False
    open_now: int = 0
    ends: asyncio.Event | None = None
    """Until it is set, no session has ended."""
    starts_slowly: bool = False
    first_starts: list[bool] = field(default_factory=list)
    """For each session, whether it was opened as a first start."""
    on_change: Callable[[], None] = lambda: None
    calls: list[tuple[str, Mapping[str, JsonValue]]] = field(default_factory=list)

    @property
    def greeting(self) -> ServerGreeting:
        return ServerGreeting(self.name, "1", "2025-06-18")

    def check(self) -> None:
        if self.fails is not None:
            raise ServerFailedError(self.fails)

    @asynccontextmanager
    async def open(
        self, _: Registration, on_change: Callable[[], None], report_slow_start: ReportSlowStart | None
    ) -> AsyncGenerator["Server"]:
        if self.starts_slowly and report_slow_start is not None:
            await report_slow_start(300.0)
        self.first_starts.append(report_slow_start is not None)
        self.check()
        self.opened += 1
        self.open_now += 1
        self.on_change = on_change
        try:
            yield self
        finally:
            if self.ends is not None:
                await self.ends.wait()
            self.open_now -= 1

    async def list_tools(self) -> tuple[JsonValue, ...]:
        self.lists += 1
        if self.hangs:
            await asyncio.Event().wait()
        return tuple(self.tools)

    answers: dict[str, ToolAnswer] = field(default_factory=dict)
    """By the name of the tool; the others say their names."""
    silent: asyncio.Event | None = None
    """If there is one, it is set when a call arrives, which is never answered."""

    async def call(self, tool: str, arguments: Mapping[str, JsonValue], timeout_s: float) -> ToolAnswer:
        self.calls.append((tool, arguments))
        if self.silent is not None:
            self.silent.set()
            await asyncio.Event().wait()
        return self.answers.get(tool, ToolAnswer(text=tool))


class CatalogueInMemory:
    """Tools by project and id; what is described otherwise waits in quarantine."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], tuple[ToolDescription, ToolState]] = {}
        self.marked = set[tuple[str, str]]()
        """Tools that an operator marked for approval."""
        self.away = False
        self.asked = 0

    def list_ids(self) -> list[str]:
        return sorted(id_ for _, id_ in self.kept)

    async def put_tools(self, project: str, source: str, tools: Sequence[ToolDescription]) -> tuple[ToolPut, ...]:
        self._check()
        return tuple(ToolPut(id=tool.id, outcome=self._put((project, tool.id), tool)) for tool in tools)

    def _put(self, key: tuple[str, str], tool: ToolDescription) -> ToolPutOutcome:
        known = self.kept.get(key)
        if known is None:
            self.kept[key] = tool, ToolState.ACTIVE
            return ToolPutOutcome.CREATED
        if known[0] == tool:
            return ToolPutOutcome.UNCHANGED
        self.kept[key] = known[0], ToolState.QUARANTINED
        return ToolPutOutcome.QUARANTINED

    async def remove_tools(self, project: str, source: str, ids: Sequence[str] | None = None) -> int:
        self._check()
        gone = [
            key
            for key, (tool, _) in self.kept.items()
            if key[0] == project and tool.source == source and (ids is None or key[1] in ids)
        ]
        for key in gone:
            del self.kept[key]
        return len(gone)

    async def list_tools(self, project: str, source: str | None = None) -> tuple[ToolSummary, ...]:
        self._check()
        return tuple(
            _summary(tool, state).model_copy(update={"approval_mark": (of, id_) in self.marked or None})
            for (of, id_), (tool, state) in self.kept.items()
            if of == project and source in (None, tool.source)
        )

    async def get_tool(self, project: str, tool_id: str) -> CatalogueTool | None:
        known = self.kept.get((project, tool_id))
        if known is None:
            return None
        marked = (project, tool_id) in self.marked
        found = CatalogueTool(tool=known[0], state=known[1], digest="0" * 64, created_at=NOW, updated_at=NOW)
        return found.model_copy(update={"requires_approval": marked, "approval_mark": marked or None})

    def _check(self) -> None:
        self.asked += 1
        if self.away:
            raise RequestError(ErrorCode.UNAVAILABLE, "the catalogue is away")


def _summary(tool: ToolDescription, state: ToolState) -> ToolSummary:
    return ToolSummary(
        id=tool.id,
        name=tool.name,
        description=tool.description,
        tool_type=tool.tool_type,
        source=tool.source,
        state=state,
        findings=0,
        updated_at=NOW,
    )


class FeedInMemory:
    """Nothing but what a test says."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[ServerKey | None] = asyncio.Queue()

    async def next(self, within_s: float) -> ServerKey | None:
        return await self.queue.get()


@dataclass(slots=True)
class SandboxInMemory:
    """Answers every run alike, or waits until it is cancelled."""

    ran: SkillRan | None = None
    lingers: asyncio.Event | None = None
    """If there is one, it is set when a run begins, which then waits until it is cancelled."""
    requests: list[RunSkill] = field(default_factory=list)

    async def run(self, request: RunSkill, within_s: float, cancelled: asyncio.Event) -> SkillRan:
        self.requests.append(request)
        if self.ran is None:
            raise RequestError(ErrorCode.SKILL_NOT_FOUND, f"no skill {request.name}")
        if self.lingers is not None:
            self.lingers.set()
            await cancelled.wait()
            return self.ran.model_copy(update={"status": RunStatus.CANCELLED, "exit_code": None})
        return self.ran


@dataclass(slots=True)
class FilesInMemory:
    """Files of calls by project, call and name; `away` refuses them."""

    kept: dict[tuple[str, str, str], bytes] = field(default_factory=dict)
    away: bool = False

    async def put(self, project: str, run_id: str, name: str, data: bytes) -> None:
        if self.away:
            raise RequestError(ErrorCode.UNAVAILABLE, "the store is away")
        self.kept[project, run_id, name] = data

    async def read_start(self, content: Content, max_bytes: int) -> bytes:
        return (content.inline or b"")[:max_bytes]


@dataclass(slots=True)
class LinesInMemory:
    """Calls that can be cancelled, by id and project."""

    open: dict[tuple[str, str], asyncio.Event] = field(default_factory=dict)

    @asynccontextmanager
    async def listen(self, work_id: str, project: str) -> AsyncGenerator[asyncio.Event]:
        self.open[work_id, project] = asyncio.Event()
        yield self.open[work_id, project]
        del self.open[work_id, project]

    async def cancel(self, work_id: str, project: str) -> bool:
        line = self.open.get((work_id, project))
        if line is not None:
            line.set()
        return line is not None


class FileInMemory:
    """The operator's file. `problem` refuses it."""

    def __init__(self) -> None:
        self.content: bytes | None = None
        self.problem: str | None = None
        self.was_read: tuple[bytes | None, str | None] | None = None

    def write_servers(self, **entries: JsonValue) -> None:
        self.content = json.dumps({"mcpServers": entries}).encode()

    async def has_changed(self) -> bool:
        return self.was_read != (self.content, self.problem)

    async def read(self) -> bytes | None:
        self.was_read = self.content, self.problem
        if self.problem is not None:
            raise OperatorFileError(self.problem)
        return self.content


@dataclass(slots=True)
class World:
    """All of it."""

    server: Server = field(default_factory=Server)
    store: Store = field(default_factory=Store)
    catalogue: CatalogueInMemory = field(default_factory=CatalogueInMemory)
    facts: list[tuple[str, McpServerSeen]] = field(default_factory=list)
    """Kinds of events and their facts, in order."""
    changes: FeedInMemory = field(default_factory=FeedInMemory)
    file: FileInMemory = field(default_factory=FileInMemory)
    sandbox: SandboxInMemory = field(default_factory=SandboxInMemory)
    files: FilesInMemory = field(default_factory=FilesInMemory)
    lines: LinesInMemory = field(default_factory=LinesInMemory)

    def ports(self, file: "FileInMemory | None" = None) -> FollowerPorts:
        servers = OperatorServers(file or self.file, self.store, lambda: NOW)
        return FollowerPorts(servers, self.server.open, self.catalogue, self.announce, lambda: NOW)

    async def announce(self, event: Event[McpServerSeen], fact: McpServerSeen) -> None:
        self.facts.append((event.fact, fact))


def tool(name: str, description: str = "Does something.") -> JsonValue:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


async def holds(read: object) -> bool:
    """Wait until a condition holds of which no event is sent."""
    assert callable(read)

    async def now() -> bool:
        return bool(read())

    return await eventually(now, bool)
