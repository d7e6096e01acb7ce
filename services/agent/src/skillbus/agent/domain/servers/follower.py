"""Follows one server while it is registered: keeps a session, lists its tools, and updates the catalogue."""

import asyncio
import contextvars
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from skillbus.agent.domain.errors import ServerFailedError
from skillbus.agent.domain.ports import AgentCatalogue, AnnounceServer, OpenSession, ServerGreeting, ToolSession
from skillbus.agent.domain.servers.listing import ServerListing, SyncReport, describe_tools, sync_catalogue
from skillbus.agent.domain.servers.operator_servers import OperatorServers
from skillbus.agent.domain.servers.registration import RegisteredServer, ServerSeen
from skillbus.common.background import finish_within
from skillbus.common.records import WriteConflictError
from skillbus.contracts.agent.mcp_servers import (
    MCP_SERVER_FAILED,
    MCP_SERVER_LISTED,
    McpServerSeen,
    McpServerState,
)
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.tools import MCP_SOURCE_PREFIX, ToolFinding

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FollowTiming:
    """Intervals of following a server, in seconds."""

    poll_every_s: float = 300.0
    """Interval of listings, for servers that do not report their changes."""
    resync_every_s: float = 3_600.0
    """Interval in which an unchanged list is compared with the catalogue, which others may change."""
    settle_s: float = 1.0
    """Delay between a reported change and the listing, so that several changes are read once."""
    first_retry_s: float = 1.0
    last_retry_s: float = 300.0

    def compute_retry_s(self, failures: int) -> float:
        """Return the delay after `failures` (1 or more) in a row. It doubles each time and is randomized."""
        wait_s = min(self.first_retry_s * 2.0 ** min(failures - 1, 30), self.last_retry_s)
        return wait_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


@dataclass(frozen=True, slots=True)
class FollowerPorts:
    """Dependencies of a follower."""

    store: OperatorServers
    open_session: OpenSession
    catalogue: AgentCatalogue
    announce: AnnounceServer
    now: Callable[[], datetime]


class _SupersededError(Exception):
    """The registration was removed or replaced."""


class ServerFollower:
    """Follows one registration of a server, from `start` until `stop` or until the registration is superseded."""

    def __init__(self, server: RegisteredServer, ports: FollowerPorts, timing: FollowTiming) -> None:
        self.server = server
        """The server as this follower last wrote it."""
        self._ports = ports
        self._timing = timing
        self._session: ToolSession | None = None
        self._had_session = False
        self._failures = 0
        self._forced = False
        self._last: tuple[ServerListing, SyncReport, float] | None = None
        self._changed = asyncio.Event()
        self._requested = asyncio.Event()
        self._progress = asyncio.Event()
        self._started_listings = self._ended_listings = 0
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def ended(self) -> bool:
        return self._task is not None and self._task.done()

    def start(self) -> None:
        """Start to follow, without the context of the current request: its deadline does not apply."""
        self._task = asyncio.create_task(self._follow(), context=contextvars.Context())
        # Not in a `finally` of the task: a task that is cancelled before its first step never enters its body.
        self._task.add_done_callback(lambda _: self._progress.set())

    async def stop(self) -> None:
        """End the session, and wait for that."""
        if self._task is None:
            return
        if not self._stopped:
            self._stopped = True
            self._task.cancel()
            self._request_listing()  # a wait in nats-py can swallow the cancellation before Python 3.12
        await asyncio.wait({self._task})

    async def relist(self, within_s: float) -> None:
        """Request a listing, and wait until it succeeded, failed or took too long."""
        number = self._started_listings + 1
        self._request_listing()
        await self.wait_for_listing(within_s, number)

    async def wait_for_listing(self, within_s: float, number: int = 1) -> None:
        """Wait until this listing succeeded, failed or took too long, or until the follower ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(within_s, 0)):
                while self._ended_listings < number and not self.ended:
                    self._progress.clear()
                    await self._progress.wait()

    async def get_session(self, within_s: float) -> ToolSession:
        """Return the open session. Raises ServerFailedError if there is none in time."""
        if (session := self._session) is None:
            await self.relist(within_s)
            session = self._session
        if session is None:
            reason = self.server.seen.problem or "it has not answered yet"
            raise ServerFailedError(f"the MCP server {self.server.registration.name} is not connected: {reason}")
        session.check()
        return session

    async def list_offered(self, within_s: float) -> frozenset[str] | None:
        """Return the ids of the tools that the server lists now; None if it does not answer."""
        try:
            async with asyncio.timeout(max(within_s, 0)):
                listing = await self._list_tools(await self.get_session(within_s))
        except (ServerFailedError, TimeoutError):
            return None
        return frozenset(tool.id for tool in listing.tools)

    def _request_listing(self) -> None:
        self._requested.set()
        self._changed.set()

    async def _follow(self) -> None:
        while not self._stopped:
            try:
                await self._run_session()
            except _SupersededError:
                return
            except ServerFailedError as error:
                await self._record_failure(str(error))
            except Exception:
                # The supervisor of this server: an unforeseen error must not end its following.
                log.exception("mcp_server_follower_failed", server=self.server.registration.name)
                self._failures += 1
            self._end_listing()
            await finish_within(self._requested.wait(), self._timing.compute_retry_s(max(self._failures, 1)))

    async def _run_session(self) -> None:
        self._begin_listing()
        report = None if self._had_session else self._report_slow_start
        async with self._ports.open_session(self.server.registration, self._changed.set, report) as session:
            self._session, self._had_session = session, True
            try:
                while not self._stopped:
                    await self._list_and_wait(session)
            finally:
                self._session = None

    async def _report_slow_start(self, limit_s: float) -> None:
        problem = f"its first start is under way: it may be downloading a package, and has {limit_s:g} s for that"
        log.info("mcp_server_starts_slowly", server=self.server.registration.name, limit_s=limit_s)
        try:
            await self._store_seen(
                self.server.seen.model_copy(update={"state": McpServerState.CONNECTING, "problem": problem})
            )
        except RequestError as error:
            log.warning("mcp_server_start_not_recorded", server=self.server.registration.name, error=error.message)

    async def _list_and_wait(self, session: ToolSession) -> None:
        session.check()
        self._begin_listing()
        accepted = await self._update_catalogue(session)
        self._end_listing()
        wait_s = self._timing.poll_every_s if accepted else self._timing.compute_retry_s(self._failures)
        await finish_within(self._changed.wait(), wait_s)
        session.check()
        if self._changed.is_set() and not self._requested.is_set():
            await finish_within(self._requested.wait(), self._timing.settle_s)

    def _begin_listing(self) -> None:
        self._forced = self._requested.is_set()
        self._requested.clear()
        self._changed.clear()
        self._started_listings += 1

    def _end_listing(self) -> None:
        self._ended_listings = self._started_listings
        self._progress.set()

    async def _list_tools(self, session: ToolSession) -> ServerListing:
        """Return the current tools of the server. Raises ServerFailedError."""
        registration = self.server.registration
        try:
            async with asyncio.timeout(registration.timeout_s):
                raw = await session.list_tools()
        except TimeoutError:
            raise ServerFailedError(f"it did not list its tools within {registration.timeout_s:g} s") from None
        provider = self.server.seen.known_as or session.greeting.name or registration.name
        return await asyncio.to_thread(describe_tools, registration.name, provider, raw)

    async def _update_catalogue(self, session: ToolSession) -> bool:
        """Bring the catalogue up to date with the server's list. Return False if the catalogue refused it."""
        registration = self.server.registration
        listing = await self._list_tools(session)
        try:
            report: SyncReport | None = None
            if self._last is not None and not self._forced:
                last, earlier, at = self._last
                if last == listing and time.monotonic() - at < self._timing.resync_every_s:
                    report = earlier
            if report is None:
                report = await sync_catalogue(self._ports.catalogue, registration.project, registration.name, listing)
                unchanged = replace(report, created=0, updated=0, quarantined=0, removed=0)
                self._last = listing, unchanged, time.monotonic()
        except RequestError as error:
            self._last = None
            await self._record_refusal(session.greeting, error)
            return False
        self._failures = 0
        await self._record_listing(session.greeting, listing, report)
        return True

    async def _record_listing(self, greeting: ServerGreeting, listing: ServerListing, report: SyncReport) -> None:
        known_as = self.server.seen.known_as or greeting.name
        renamed: tuple[ToolFinding, ...] = ()
        if known_as != greeting.name:
            message = f"it was known as {(known_as or '')[:80]!r} and now calls itself {(greeting.name or '')[:80]!r}"
            renamed = (ToolFinding(code="server_renamed", message=message),)
        seen = ServerSeen(
            state=McpServerState.CONNECTED,
            server_name=greeting.name,
            server_version=greeting.version,
            protocol=greeting.protocol,
            tools=len(listing.tools),
            quarantined=report.waiting,
            findings=(*renamed, *listing.findings, *report.findings)[:100],
            listed_at=self._ports.now(),
            known_as=known_as,
        )
        before = await self._store_seen(seen)
        if report.changed or before.state is not McpServerState.CONNECTED or before.problem:
            await self._ports.announce(MCP_SERVER_LISTED, self._make_fact(seen, report))

    async def _record_refusal(self, greeting: ServerGreeting, error: RequestError) -> None:
        self._failures += 1
        update = {
            "state": McpServerState.CONNECTED,
            "problem": f"the catalogue did not accept its tools: {error.message}",
            "server_name": greeting.name,
            "server_version": greeting.version,
        }
        await self._record_problem(self.server.seen.model_copy(update=update))

    async def _record_failure(self, problem: str) -> None:
        self._failures += 1
        update = {"state": McpServerState.FAILED, "problem": problem[:1_000]}
        try:
            await self._record_problem(self.server.seen.model_copy(update=update))
        except RequestError as error:
            log.warning("mcp_server_failure_not_recorded", server=self.server.registration.name, error=error.message)
        except _SupersededError:
            return  # the registry stops this follower

    async def _record_problem(self, seen: ServerSeen) -> None:
        before = await self._store_seen(seen)
        if (before.state, before.problem) != (seen.state, seen.problem):
            log.warning("mcp_server_failed", server=self.server.registration.name, problem=seen.problem)
            await self._ports.announce(MCP_SERVER_FAILED, self._make_fact(seen, SyncReport()))

    def _make_fact(self, seen: ServerSeen, report: SyncReport) -> McpServerSeen:
        registration = self.server.registration
        return McpServerSeen(
            project=registration.project,
            name=registration.name,
            tools=seen.tools,
            created=report.created,
            updated=report.updated,
            quarantined=report.quarantined,
            removed=report.removed,
            problem=seen.problem,
        )

    async def _store_seen(self, seen: ServerSeen) -> ServerSeen:
        """Store the state of the server and return the previous one. Raises _SupersededError."""
        key = self.server.key
        while True:
            stored = await self._ports.store.load_server(key)
            if stored is None:
                # The server was removed while its tools were added.
                await self._ports.catalogue.remove_tools(key.project, f"{MCP_SOURCE_PREFIX}{key.name}")
                raise _SupersededError
            if stored.record.id != self.server.id:
                raise _SupersededError
            before = stored.record.seen
            with suppress(WriteConflictError):  # another replica wrote it at the same time: read it again
                written = await self._ports.store.save_server(
                    stored.record.model_copy(update={"seen": seen}), stored.revision
                )
                self.server = written.record
                return before
