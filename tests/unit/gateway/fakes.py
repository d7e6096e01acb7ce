"""Hand-written stand-ins for the bus, and the gateway's application over them."""

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha256
from typing import TypeVar

import httpx
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

from skillbus.common.audit_log.recorder import ActRecorder
from skillbus.common.bus.objects import StoredObject
from skillbus.common.tools.skill_files import SkillFiles
from skillbus.contracts.agent.turns import TurnEvent
from skillbus.contracts.audit_log import AuditFact
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import ApiKeyRecord, Role
from skillbus.contracts.gateway.sessions import LoginLinkRecord, SessionRecord
from skillbus.contracts.indexer.index_switch import SwitchProgress
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import GET_SKILL
from skillbus.contracts.learner.learning_jobs import LearningAdvanced
from skillbus.contracts.message import JSON, Message
from skillbus.contracts.sandbox.run_history import RunEvent
from skillbus.gateway.adapters.api import PageFiles, build_app
from skillbus.gateway.adapters.boundary import HttpMetrics
from skillbus.gateway.adapters.guarded_route import GuardedRoute
from skillbus.gateway.adapters.mcp.endpoint import McpEndpoint
from skillbus.gateway.adapters.problem_response import make_problem_response
from skillbus.gateway.adapters.project_caller import ProjectCaller
from skillbus.gateway.domain.access.api_key import make_key
from skillbus.gateway.domain.access.authenticator import Authenticator
from skillbus.gateway.domain.access.key_registry import KeyRegistry
from skillbus.gateway.domain.access.key_ring import KeyRing
from skillbus.gateway.domain.access.login_link import LoginLinks
from skillbus.gateway.domain.access.session import SessionCookie, SessionRing
from skillbus.gateway.domain.access.session_registry import SessionRegistry
from skillbus.gateway.domain.access.startup import hash_owner_key
from skillbus.gateway.domain.audit import SystemAuditor
from skillbus.gateway.domain.chat.turn_runner import RemoteTurnRunner
from skillbus.gateway.domain.imports.home_importer import HomeImporter
from skillbus.gateway.domain.imports.tool_importer import ToolImporter
from skillbus.gateway.domain.knowledge import KnowledgeImporter
from skillbus.gateway.domain.learning.job_follower import JobFollower
from skillbus.gateway.domain.learning.uploader import LearningUploader
from skillbus.gateway.domain.package_installer import PackageInstaller
from skillbus.gateway.domain.ports import ServiceInstance
from skillbus.gateway.domain.readiness import Readiness
from skillbus.gateway.domain.runs.run_watcher import RunWatcher
from skillbus.gateway.domain.runs.skill_runner import RemoteSkillRunner
from skillbus.gateway.domain.runs.tool_calls import RemoteToolCaller
from skillbus.gateway.domain.switch_follower import SwitchFollower
from skillbus.gateway.service.access.sessions import SessionRoutes
from skillbus.gateway.service.pages.login import LoginPages
from skillbus.gateway.service.pages.rendering import ASSETS, ASSETS_PATH
from skillbus.gateway.service.pages.router import show_page_problem
from skillbus.gateway.service.pages.sections.start import START_PAGE
from skillbus.gateway.service.router import TAGS, GatewayParts, build_router
from skillbus.gateway.service.system import SystemRoutes, render_registry
from skillbus.gateway.settings import GatewaySettings

RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)
Handler = Callable[[Message], Message | Exception]

KEY = "an-owner's-key-of-some-length"
CALCULATE = Skill(
    name="calculate",
    description="数学计算",
    version="1.2.0",
    tags=("math",),
    digest="ab" * 32,
    content_digest="cd" * 32,
    size_bytes=1234,
    installed_at=datetime(2026, 1, 1, tzinfo=UTC),
    updated_at=datetime(2026, 1, 2, tzinfo=UTC),
)


@dataclass
class FakeCaller:
    """Answers an endpoint by a function of the request, or raises the error that it gives; others nobody answers."""

    handlers: dict[str, Handler] = field(default_factory=dict)
    asked: list[tuple[str, Message]] = field(default_factory=list)
    waits_s: list[float | None] = field(default_factory=list)

    def on(self, endpoint: Endpoint[Message, Message], handler: Handler) -> None:
        self.handlers[endpoint.subject] = handler

    async def call(
        self,
        endpoint: Endpoint[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_s: float | None = None,
        content_type: str = JSON,
    ) -> ReplyT:
        self.asked.append((endpoint.name, request))
        self.waits_s.append(timeout_s)
        if endpoint.subject not in self.handlers:
            raise RequestError(ErrorCode.UNAVAILABLE, f"No {endpoint.service} is running to answer {endpoint.name}.")
        reply = self.handlers[endpoint.subject](request)
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, endpoint.reply)
        return reply

    async def call_for_json(
        self, endpoint: Endpoint[RequestT, Message], request: RequestT, *, timeout_s: float | None = None
    ) -> bytes:
        return (await self.call(endpoint, request, timeout_s=timeout_s)).model_dump_json().encode()


@dataclass
class FakeStored:
    """An object that comes in pieces of three bytes."""

    data: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    @property
    def pieces(self) -> AsyncGenerator[bytes]:
        return self._pieces()

    async def _pieces(self) -> AsyncGenerator[bytes]:
        for at in range(0, len(self.data), 3):
            yield self.data[at : at + 3]


@dataclass
class FakeFeed:
    """Tells whoever listens what `told` holds, and then what is put into it."""

    told: asyncio.Queue[RunEvent] = field(default_factory=asyncio.Queue)
    listened_to: list[str] = field(default_factory=list)
    listening: int = 0

    @asynccontextmanager
    async def listen(self, run_id: str) -> AsyncGenerator[AsyncIterator[RunEvent]]:
        self.listened_to.append(run_id)
        self.listening += 1

        async def events() -> AsyncGenerator[RunEvent]:
            while True:
                yield await self.told.get()

        try:
            yield events()
        finally:
            self.listening -= 1


@dataclass
class FakeTurnFeed:
    """Tells whoever listens what is put into `told`."""

    told: asyncio.Queue[TurnEvent] = field(default_factory=asyncio.Queue)
    listening: int = 0

    @asynccontextmanager
    async def listen(self, _: str) -> AsyncGenerator[AsyncIterator[TurnEvent]]:
        self.listening += 1

        async def events() -> AsyncGenerator[TurnEvent]:
            while True:
                yield await self.told.get()

        try:
            yield events()
        finally:
            self.listening -= 1


@dataclass
class FakeJobFeed:
    """Tells whoever listens what is put into `told`."""

    told: asyncio.Queue[LearningAdvanced] = field(default_factory=asyncio.Queue)

    @asynccontextmanager
    async def listen(self, _: str) -> AsyncGenerator[AsyncIterator[LearningAdvanced]]:
        async def events() -> AsyncGenerator[LearningAdvanced]:
            while True:
                yield await self.told.get()

        yield events()


@dataclass
class FakeSwitchFeed:
    """Tells whoever listens what is put into `told`."""

    told: asyncio.Queue[SwitchProgress] = field(default_factory=asyncio.Queue)
    listening: int = 0

    @asynccontextmanager
    async def listen(self) -> AsyncGenerator[AsyncIterator[SwitchProgress]]:
        self.listening += 1

        async def events() -> AsyncGenerator[SwitchProgress]:
            while True:
                yield await self.told.get()

        try:
            yield events()
        finally:
            self.listening -= 1


@dataclass
class FakeObjects:
    """A bucket in memory. `failures` are raised first, one a call of `put` or `put_file`."""

    held: dict[str, bytes] = field(default_factory=dict)
    puts: list[str] = field(default_factory=list)
    failures: list[RequestError] = field(default_factory=list)

    async def put(self, name: str, data: bytes) -> None:
        self.puts.append(name)
        if self.failures:
            raise self.failures.pop(0)
        self.held[name] = data

    async def put_file(self, name: str, file: io.BufferedIOBase, size_bytes: int) -> None:
        chunk, data = bytearray(100_000), bytearray()
        while size := file.readinto(chunk):
            data += chunk[:size]
        await self.put(name, bytes(data))

    async def put_pieces(self, name: str, pieces: AsyncIterable[bytes]) -> StoredObject:
        data = b"".join([piece async for piece in pieces])
        await self.put(name, data)
        return StoredObject(len(data), sha256(data).hexdigest())

    async def get(self, name: str, max_bytes: int) -> bytes:
        if name not in self.held:
            raise RequestError(ErrorCode.NOT_FOUND, f"{name} is not there.")
        if len(self.held[name]) > max_bytes:
            raise RequestError(ErrorCode.PAYLOAD_TOO_LARGE, f"{name} is over {max_bytes} bytes.")
        return self.held[name]

    async def open(self, name: str, max_bytes: int) -> FakeStored:
        return FakeStored(await self.get(name, max_bytes))

    async def delete(self, name: str) -> None:
        self.held.pop(name, None)


@dataclass
class FakeKeys:
    """API keys that are stored in the ring of one gateway."""

    ring: KeyRing
    records: dict[str, ApiKeyRecord] = field(default_factory=dict)
    uses: dict[str, datetime] = field(default_factory=dict)

    async def list_records(self) -> tuple[ApiKeyRecord, ...]:
        return tuple(self.records.values())

    async def list_uses(self) -> dict[str, datetime]:
        return self.uses

    async def add_record(self, record: ApiKeyRecord) -> None:
        self.records[record.id] = record
        self.ring.put_record(record)

    async def revoke_record(self, key_id: str, revoked_at: datetime) -> ApiKeyRecord | None:
        if key_id not in self.records:
            return None
        self.records[key_id] = self.records[key_id].model_copy(update={"revoked_at": revoked_at})
        self.ring.put_record(self.records[key_id])
        return self.records[key_id]


@dataclass
class FakeLinks:
    """Login links that were not used yet."""

    records: dict[str, LoginLinkRecord] = field(default_factory=dict)

    async def add_link(self, record: LoginLinkRecord) -> None:
        self.records[record.id] = record

    async def take_link(self, link_id: str) -> LoginLinkRecord | None:
        return self.records.pop(link_id, None)


@dataclass
class FakeSessions:
    """Sessions that are stored in the ring of one gateway."""

    ring: SessionRing

    async def add_session(self, record: SessionRecord) -> None:
        self.ring.put_record(record)

    async def end_session(self, record: SessionRecord, revoked_at: datetime) -> None:
        self.ring.put_record(record.model_copy(update={"revoked_at": revoked_at}))


@dataclass
class FakeAuditLog:
    """Facts in memory. `failure` is raised by each attempt to record."""

    facts: list[AuditFact] = field(default_factory=list)
    failure: RequestError | None = None

    async def append_fact(self, fact: AuditFact) -> None:
        if self.failure is not None:
            raise self.failure
        self.facts.append(fact)


@dataclass
class FakeDiscovery:
    """Finds the instances in `found`, or raises `failure`."""

    found: tuple[ServiceInstance, ...] = ()
    failure: RequestError | None = None

    async def list_instances(self) -> tuple[ServiceInstance, ...]:
        if self.failure is not None:
            raise self.failure
        return self.found


@dataclass
class FakeConnection:
    is_connected: bool = True


class _OfCurrentWorld:
    """A fake of the world whose request is handled."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        return getattr(getattr(_CURRENT.get(), self._name), attribute)


_CURRENT: ContextVar["World"] = ContextVar("world")


@cache
def build_shared_app(settings: GatewaySettings, key: str | None, mcp: McpEndpoint | None) -> ASGIApp:
    """Build an app that takes its fakes from the current world. Hundreds of tests need it, and building takes .15 s."""
    caller = ProjectCaller(_OfCurrentWorld("caller"))
    files, patience_s = _OfCurrentWorld("packages"), settings.upload_patience_s
    recorder = ActRecorder(_OfCurrentWorld("audit_log"), "gateway")
    registry, run_files = CollectorRegistry(), _OfCurrentWorld("run_files")

    def listen(run_id: str) -> AbstractAsyncContextManager[AsyncIterator[RunEvent]]:
        return _CURRENT.get().feed.listen(run_id)

    def listen_to_turn(turn_id: str) -> AbstractAsyncContextManager[AsyncIterator[TurnEvent]]:
        return _CURRENT.get().turn_feed.listen(turn_id)

    def listen_to_job(job: str) -> AbstractAsyncContextManager[AsyncIterator[LearningAdvanced]]:
        return _CURRENT.get().job_feed.listen(job)

    def listen_to_switches() -> AbstractAsyncContextManager[AsyncIterator[SwitchProgress]]:
        return _CURRENT.get().switch_feed.listen()

    def note_use(key_id: str) -> None:
        _CURRENT.get().used_keys.append(key_id)

    authenticator = Authenticator(
        hash_owner_key(key),
        _OfCurrentWorld("key_ring"),
        _OfCurrentWorld("session_ring"),
        SessionCookie(is_secure=settings.tls_in_front),
        note_use,
    )
    sessions = SessionRegistry(_OfCurrentWorld("session_store"), authenticator)
    links = LoginLinks(_OfCurrentWorld("link_store"), authenticator, sessions)
    parts = GatewayParts(
        caller,
        PackageInstaller(caller, files, max_bytes=settings.package_bytes, patience_s=patience_s),
        SkillFiles(partial(caller.call, GET_SKILL), files),
        RemoteSkillRunner(caller, run_files, listen, artifact_bytes=settings.artifact_bytes),
        RunWatcher(caller, listen),
        RemoteToolCaller(caller, run_files, listen, file_bytes=settings.artifact_bytes),
        ToolImporter(caller, patience_s=patience_s),
        HomeImporter(caller, patience_s=patience_s),
        KnowledgeImporter(caller, patience_s=patience_s),
        LearningUploader(caller, _OfCurrentWorld("learning_files")),
        JobFollower(caller, listen_to_job),
        SwitchFollower(caller, listen_to_switches),
        _OfCurrentWorld("discovery"),
        KeyRegistry(_OfCurrentWorld("key_store")),
        SessionRoutes(sessions, links, authenticator.session_cookie),
        LoginPages(links, authenticator.session_cookie, START_PAGE),
        RemoteTurnRunner(caller, listen_to_turn),
        recorder,
        SystemRoutes(
            Readiness(caller, _OfCurrentWorld("connection"), None, timeout_s=settings.health_timeout_s),
            SystemAuditor(caller),
            partial(render_registry, registry),
        ),
    )
    router = build_router(parts, GuardedRoute)
    pages = PageFiles(START_PAGE, ASSETS_PATH, ASSETS, partial(show_page_problem, make_problem_response))
    return build_app(router, TAGS, settings, authenticator, recorder, HttpMetrics(registry), mcp, pages)


@dataclass
class World:
    """The gateway over fakes. Worlds with equal settings share an app and its metrics."""

    settings: GatewaySettings = field(default_factory=lambda: GatewaySettings(upload_patience_s=0))
    key: str | None = None
    caller: FakeCaller = field(default_factory=FakeCaller)
    packages: FakeObjects = field(default_factory=FakeObjects)
    run_files: FakeObjects = field(default_factory=FakeObjects)
    learning_files: FakeObjects = field(default_factory=FakeObjects)
    job_feed: FakeJobFeed = field(default_factory=FakeJobFeed)
    switch_feed: FakeSwitchFeed = field(default_factory=FakeSwitchFeed)
    feed: FakeFeed = field(default_factory=FakeFeed)
    turn_feed: FakeTurnFeed = field(default_factory=FakeTurnFeed)
    discovery: FakeDiscovery = field(default_factory=FakeDiscovery)
    connection: FakeConnection = field(default_factory=FakeConnection)
    key_ring: KeyRing = field(default_factory=KeyRing)
    session_ring: SessionRing = field(default_factory=SessionRing)
    used_keys: list[str] = field(default_factory=list)
    audit_log: FakeAuditLog = field(default_factory=FakeAuditLog)
    mcp: McpEndpoint | None = None

    def __post_init__(self) -> None:
        self.key_store = FakeKeys(self.key_ring)
        self.session_store = FakeSessions(self.session_ring)
        self.link_store = FakeLinks()
        self.key_ring.replace_records((), frozenset())
        self.session_ring.replace_records((), frozenset())

    def add_key(
        self, role: Role, *projects: str, expires_at: datetime | None = None, revoked_at: datetime | None = None
    ) -> str:
        """Store a key, and return its text."""
        text = make_key()
        record = ApiKeyRecord(
            id=text.id,
            label="a test",
            role=role,
            projects=projects,
            created_at=datetime.now(UTC),
            created_by="owner",
            expires_at=expires_at,
            revoked_at=revoked_at,
            secret_sha256=text.hash_secret(),
        )
        self.key_store.records[text.id] = record
        self.key_ring.put_record(record)
        return text.reveal()

    def app(self) -> ASGIApp:
        shared = build_shared_app(self.settings, self.key, self.mcp)

        async def handle(scope: Scope, receive: Receive, send: Send) -> None:
            _CURRENT.set(self)
            await shared(scope, receive, send)

        return handle

    @asynccontextmanager
    async def client(self, key: str | None = None) -> AsyncGenerator[httpx.AsyncClient]:
        """Open a client that sends a key, by default the owner's if there is one."""
        key = key or self.key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        transport = httpx.ASGITransport(self.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", headers=headers) as client:
            yield client
