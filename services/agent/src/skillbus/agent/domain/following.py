"""One server, followed for as long as it is registered: a session, its list, and the catalogue as the list is."""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import structlog

from skillbus.agent.domain.described import Listing, describe_all
from skillbus.agent.domain.errors import ServerFailedError
from skillbus.agent.domain.ports import Announcer, Catalogue, Greeting, Session, Sessions
from skillbus.agent.domain.registered import RegisteredServer, ServerSeen, ServerStore
from skillbus.agent.domain.syncing import Synced, sync
from skillbus.common.background import finish_within
from skillbus.common.records import WriteConflictError
from skillbus.contracts.agent.mcp_servers import McpServerSeen, McpServerState
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.tools import ToolFinding

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """When a server is looked at, in seconds."""

    poll_every_s: float = 300.0
    """For servers that change and do not say so."""
    resync_every_s: float = 3_600.0
    """For catalogues that others change: a list that is as it was is compared with the catalogue no more often."""
    settle_s: float = 1.0
    """From the word that a list changed until it is read, so that many changes are read once."""
    first_retry_s: float = 1.0
    last_retry_s: float = 300.0

    def retry_s(self, failures: int) -> float:
        """How long to wait after so many failures in a row, 1 or more: twice as long each time, and spread."""
        wait_s = min(self.first_retry_s * 2.0 ** min(failures - 1, 30), self.last_retry_s)
        return wait_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


@dataclass(frozen=True, slots=True)
class FollowerPorts:
    """What following needs."""

    store: ServerStore
    sessions: Sessions
    catalogue: Catalogue
    announcer: Announcer
    now: Callable[[], datetime]


class _SupersededError(Exception):
    """The registration is gone, or another is in its place."""


class Follower:
    """Follows one registration of a server."""

    def __init__(self, server: RegisteredServer, ports: FollowerPorts, timing: Timing) -> None:
        self.server = server
        """As it was last seen from here."""
        self._ports = ports
        self._timing = timing
        self._session: Session | None = None
        self._failures = 0
        self._forced = False
        self._last: tuple[Listing, Synced, float] | None = None
        self._changed = asyncio.Event()
        self._asked = asyncio.Event()
        self._looked = asyncio.Event()
        self._begun = self._ended = 0  # looks at the server, by number
        self._over = False

    async def run(self) -> None:
        """Follow until cancelled, or until the registration is superseded."""
        try:
            await self._follow()
        finally:
            self._over = True
            self._looked.set()  # nobody waits for a look that will not be

    async def _follow(self) -> None:
        while True:
            try:
                await self._live_through_a_session()
            except _SupersededError:
                return
            except ServerFailedError as error:
                await self._failed(str(error))
            except Exception:
                # Supervises: what nobody thought of must not end the following of a server.
                log.exception("mcp_server_follower_failed", server=self.server.registration.name)
                self._failures += 1
            self._done()
            await _either(self._asked, within_s=self._timing.retry_s(max(self._failures, 1)))

    async def look(self, within_s: float) -> None:
        """Have it listed now, and wait until it was, or could not be, or time is over."""
        wanted = self._begun + 1
        self._asked.set()
        self._changed.set()
        await self._ended_with(wanted, within_s)

    async def looked(self, within_s: float) -> None:
        """Wait until it was first listed, or could not be, or time is over."""
        await self._ended_with(1, within_s)

    async def _ended_with(self, number: int, within_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(within_s, 0)):
                while self._ended < number and not self._over:
                    self._looked.clear()
                    await self._looked.wait()

    async def session(self, within_s: float) -> Session:
        """The open session. Raises ServerFailedError when there is none in time."""
        if (session := self._session) is None:
            await self.look(within_s)
            session = self._session
        if session is None:
            reason = self.server.seen.problem or "it has not answered yet"
            raise ServerFailedError(f"the MCP server {self.server.registration.name} is not connected: {reason}")
        session.check()
        return session

    async def offered(self, within_s: float) -> frozenset[str] | None:
        """Ids of the tools that it lists now, whatever the catalogue has; None when it is silent."""
        try:
            async with asyncio.timeout(max(within_s, 0)):
                return _ids(await self._read(await self.session(within_s)))
        except (ServerFailedError, TimeoutError):
            return None

    async def _live_through_a_session(self) -> None:
        self._begin()
        async with self._ports.sessions.open(self.server.registration, self._changed.set) as session:
            self._session = session
            try:
                while True:
                    await self._look_and_wait(session)
            finally:
                self._session = None

    async def _look_and_wait(self, session: Session) -> None:
        session.check()
        self._begin()
        wait_s = self._timing.poll_every_s if await self._take(session) else self._timing.retry_s(self._failures)
        self._done()
        changed = await _either(self._changed, within_s=wait_s)
        session.check()
        if changed and not self._asked.is_set():
            await _either(self._asked, within_s=self._timing.settle_s)

    def _begin(self) -> None:
        self._forced = self._asked.is_set()
        self._asked.clear()
        self._changed.clear()
        self._begun += 1

    def _done(self) -> None:
        self._ended = self._begun
        self._looked.set()

    async def _read(self, session: Session) -> Listing:
        """What it lists now. Raises ServerFailedError."""
        registration = self.server.registration
        try:
            async with asyncio.timeout(registration.timeout_s):
                raw = await session.list_tools()
        except TimeoutError:
            raise ServerFailedError(f"it did not list its tools within {registration.timeout_s:g} s") from None
        provider = self._known_as(session.greeting) or registration.name
        return await asyncio.to_thread(describe_all, registration.name, provider, raw)

    async def _take(self, session: Session) -> bool:
        """Bring the catalogue to what the server lists; whether the catalogue took it."""
        registration = self.server.registration
        listing = await self._read(session)
        try:
            synced = self._known(listing)
            if synced is None:
                synced = await sync(self._ports.catalogue, registration.project, registration.name, listing)
                self._last = listing, synced.repeated(), time.monotonic()
        except RequestError as error:
            self._last = None
            await self._not_taken(session.greeting, error)
            return False
        self._failures = 0
        await self._listed(session.greeting, listing, synced)
        return True

    def _known(self, listing: Listing) -> Synced | None:
        """What became of a listing that is as it was; None if it is not, or the catalogue should be looked at anew."""
        if self._forced or self._last is None:
            return None
        last, synced, at = self._last
        return synced if last == listing and time.monotonic() - at < self._timing.resync_every_s else None

    def _known_as(self, greeting: Greeting) -> str | None:
        return self.server.seen.known_as or greeting.name

    async def _listed(self, greeting: Greeting, listing: Listing, synced: Synced) -> None:
        known_as = self._known_as(greeting)
        seen = ServerSeen(
            state=McpServerState.CONNECTED,
            server_name=greeting.name,
            server_version=greeting.version,
            protocol=greeting.protocol,
            tools=len(listing.tools),
            quarantined=synced.waiting,
            findings=(*_renamed(known_as, greeting.name), *listing.findings, *synced.findings)[:100],
            listed_at=self._ports.now(),
            known_as=known_as,
        )
        before = await self._record(seen)
        if synced.changed or before.state is not McpServerState.CONNECTED or before.problem:
            await self._ports.announcer.listed(self._fact(seen, synced))

    async def _not_taken(self, greeting: Greeting, error: RequestError) -> None:
        self._failures += 1
        problem = f"the catalogue did not take its tools: {error.message}"
        state = McpServerState.CONNECTED
        update = {"state": state, "problem": problem, "server_name": greeting.name, "server_version": greeting.version}
        await self._problem(self.server.seen.model_copy(update=update))

    async def _failed(self, problem: str) -> None:
        self._failures += 1
        try:
            await self._problem(
                self.server.seen.model_copy(update={"state": McpServerState.FAILED, "problem": problem[:1_000]})
            )
        except RequestError as error:
            log.warning("mcp_server_failure_not_told", server=self.server.registration.name, error=error.message)
        except _SupersededError:
            return  # whoever superseded it ends this task

    async def _problem(self, seen: ServerSeen) -> None:
        before = await self._record(seen)
        if (before.state, before.problem) != (seen.state, seen.problem):
            log.warning("mcp_server_failed", server=self.server.registration.name, problem=seen.problem)
            await self._ports.announcer.failed(self._fact(seen, Synced()))

    def _fact(self, seen: ServerSeen, synced: Synced) -> McpServerSeen:
        registration = self.server.registration
        return McpServerSeen(
            project=registration.project,
            name=registration.name,
            tools=seen.tools,
            created=synced.created,
            updated=synced.updated,
            quarantined=synced.quarantined,
            removed=synced.removed,
            problem=seen.problem,
        )

    async def _record(self, seen: ServerSeen) -> ServerSeen:
        """Write how the server is; gives how it was. Raises _SupersededError."""
        key = self.server.key
        while True:
            stored = await self._ports.store.get(key)
            if stored is None:
                # It was removed while its tools were brought in.
                await self._ports.catalogue.remove(key.project, f"mcp:{key.name}")
                raise _SupersededError
            if stored.record.id != self.server.id:
                raise _SupersededError
            before = stored.record.seen
            with suppress(WriteConflictError):  # another replica told of it at the same moment: read again
                written = await self._ports.store.put(stored.record.model_copy(update={"seen": seen}), stored.revision)
                self.server = written.record
                return before


def _ids(listing: Listing) -> frozenset[str]:
    return frozenset(tool.id for tool in listing.tools)


def _renamed(known_as: str | None, name: str | None) -> tuple[ToolFinding, ...]:
    if known_as is None or known_as == name:
        return ()
    message = f"it was known as {known_as[:80]!r} and calls itself {(name or '')[:80]!r}"
    return (ToolFinding(code="server_renamed", message=message),)


async def _either(event: asyncio.Event, *, within_s: float) -> bool:
    """Wait for an event, or until time is over; which it was."""
    await finish_within(event.wait(), within_s)
    return event.is_set()
