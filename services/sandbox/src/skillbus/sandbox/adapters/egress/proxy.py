"""Egress proxy of one run: an HTTP proxy on a unix socket that connects to approved places only."""

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

import structlog

from skillbus.common.background import finish_within
from skillbus.common.outbound.addresses import Address, AddressRefusedError, read_address
from skillbus.sandbox.adapters.egress.head import END, EgressRequest, parse_head, refuse_malformed
from skillbus.sandbox.adapters.egress.tunnel import EgressBudget, Tunnel
from skillbus.sandbox.adapters.host import wait_readable
from skillbus.sandbox.domain.egress_policy import (
    Connection,
    EgressPolicy,
    EgressVerdict,
    HostPort,
    OutsideNetwork,
)
from skillbus.sandbox.domain.errors import EgressRefused

_RESOLVERS: Final = 2
"""Resolver threads of one run, so that slow names delay no other run."""
_BACKLOG: Final = 64
_PARTING_S: Final = 1.0
"""Time for the peer to take the last bytes; it may never do so."""
_PARTING_BYTES: Final = 1024 * 1024
_NO_ACCEPT_S: Final = 0.1
_CONNECTED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"

log = structlog.get_logger(__name__)


class HostNetwork:
    """`OutsideNetwork` with the host's resolver and TCP."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="egress-resolver")

    async def resolve_host(self, host: str) -> Sequence[Address]:
        ask = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return list(dict.fromkeys(read_address(entry[4]) for entry in found))

    async def connect(self, address: Address, port: int, head_bytes: int) -> Connection:
        family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connection, (str(address), port))
        except BaseException:
            connection.close()
            raise
        return await adopt_socket(connection, head_bytes)

    def close(self) -> None:
        """Start no further lookups, and do not wait for those under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def adopt_socket(connection: socket.socket, head_bytes: int) -> Connection:
    """Return streams for a connected socket; they close it.

    Opening takes one iteration of the loop and is shielded: cancelled midway, some event loops leak the descriptor and
    others close it twice.
    """
    opening = asyncio.ensure_future(asyncio.open_connection(sock=connection, limit=head_bytes))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        _, writer = await opening
        writer.transport.abort()
        raise


@asynccontextmanager
async def open_egress(
    allowed: frozenset[HostPort],
    policy: EgressPolicy | None = None,
    *,
    folder: Path | None = None,
    owner: int | None = None,
    outside: OutsideNetwork | None = None,
) -> AsyncGenerator[Path]:
    """Open the proxy of one run and yield the path of its socket. Leaving the context removes connections and files.

    The proxy connects to `allowed` places only. Its own folder lies in `folder`, or among temporary files. `owner` is
    the user who may connect, if not the current one; only root can connect as well. Raises OSError if the socket
    cannot be created.
    """
    policy = policy or EgressPolicy()
    with ExitStack() as stack:
        if outside is None:
            outside = host = HostNetwork()
            stack.callback(host.close)
        path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skillbus-net-", dir=folder)), "proxy")
        listener = stack.enter_context(_listen(path, owner))
        gate = _Gate(allowed, policy, outside)
        # Not a TaskGroup: an exception of the caller's body must not be wrapped in an ExceptionGroup.
        serving = asyncio.create_task(gate.serve(listener))
        try:
            yield path
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            if not serving.cancelled() and (error := serving.exception()) is not None:
                log.error("egress_failed", exc_info=error)


def _listen(path: Path, owner: int | None) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(str(path))
        path.chmod(0o600)
        if owner is not None:
            for inode in (path, path.parent):
                os.chown(inode, owner, owner)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


@dataclass(slots=True)
class _Account:
    """Log record of one connection: place, bytes and verdict, never content."""

    place: HostPort | None = None
    address: Address | None = None
    tunnel: Tunnel | None = None
    verdict: str = EgressVerdict.BROKEN

    def write_log(self) -> None:
        tunnel = self.tunnel
        log.info(
            "egress_connection",
            host=self.place.host if self.place is not None else None,
            port=self.place.port if self.place is not None else None,
            address=str(self.address) if self.address is not None else None,
            sent_bytes=tunnel.sent if tunnel is not None else 0,
            received_bytes=tunnel.received if tunnel is not None else 0,
            verdict=self.verdict,
        )


class _Gate:
    """Accepts a run's connections, a few at a time."""

    def __init__(self, allowed: frozenset[HostPort], policy: EgressPolicy, outside: OutsideNetwork) -> None:
        self._allowed = allowed
        self._policy = policy
        self._outside = outside
        self._budget = EgressBudget(policy.bytes_max)
        self._room = asyncio.Semaphore(policy.connections_at_once)
        self._taken = 0
        self._unattended: set[socket.socket] = set()
        """Accepted connections before their task starts."""

    async def serve(self, listener: socket.socket) -> None:
        """Accept connections until cancelled; cancelling ends all of them."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._room.acquire()
                    client = await _accept(listener)
                    self._unattended.add(client)
                    attending = group.create_task(self._attend(client))
                    attending.add_done_callback(lambda _: self._room.release())
        finally:
            for end in (listener, *self._unattended):
                end.close()

    async def _attend(self, client: socket.socket) -> None:
        self._taken += 1
        self._unattended.discard(client)
        account = _Account()
        try:
            async with _open_streams(client, self._policy.head_bytes) as inside:
                try:
                    async with asyncio.timeout(self._policy.connection_s):
                        await self._serve_one(inside, account)
                except TimeoutError:
                    account.verdict = EgressVerdict.TIMED_OUT
                except EgressRefused as refused:
                    account.verdict = refused.verdict
                    await _refuse(inside, refused)
        except OSError:
            pass  # the run's side broke; the log record says so
        finally:
            if self._taken <= self._policy.connections_max + 1:
                account.write_log()

    async def _serve_one(self, inside: Connection, account: _Account) -> None:
        if self._taken > self._policy.connections_max:
            reason = f"this run has used its {self._policy.connections_max} connections"
            raise EgressRefused(EgressVerdict.TOO_MANY, 403, reason)
        asked = await self._read(inside[0])
        account.place = asked.place
        if asked.place not in self._allowed:
            raise EgressRefused(
                EgressVerdict.NOT_APPROVED, 403, f"{asked.place} is not an approved place of this skill"
            )
        async with self._open_place(asked.place, account) as beyond:
            account.tunnel, account.verdict = Tunnel(inside, beyond, self._budget), EgressVerdict.ALLOWED
            if asked.head is None:
                inside[1].write(_CONNECTED)
            upload = None if asked.head is None else asked.body_bytes
            await account.tunnel.carry(asked.head or b"", upload, self._policy.idle_s)
            account.verdict = account.tunnel.verdict

    async def _read(self, reader: asyncio.StreamReader) -> EgressRequest:
        try:
            async with asyncio.timeout(self._policy.head_s):
                return parse_head(await reader.readuntil(END))
        except TimeoutError:
            raise refuse_malformed(f"the request's head took longer than {self._policy.head_s:g} s", 408) from None
        except asyncio.LimitOverrunError:
            raise refuse_malformed(f"the request's head is over {self._policy.head_bytes} bytes", 431) from None
        except asyncio.IncompleteReadError:
            raise refuse_malformed("the request ended within its head") from None

    @asynccontextmanager
    async def _open_place(self, place: HostPort, account: _Account) -> AsyncIterator[Connection]:
        try:
            async with asyncio.timeout(self._policy.connect_s):
                addresses = await self._resolve(place)
                account.address, beyond = await self._connect(addresses, place)
        except TimeoutError:
            raise EgressRefused(EgressVerdict.UNREACHABLE, 504, f"{place} did not answer in time") from None
        try:
            yield beyond
        finally:
            beyond[1].transport.abort()

    async def _resolve(self, place: HostPort) -> list[Address]:
        """Return the addresses of a place. One forbidden address refuses the whole answer."""
        try:
            addresses = list(await self._outside.resolve_host(place.host))
        except OSError as error:
            raise EgressRefused(EgressVerdict.UNRESOLVED, 502, f"{place.host} does not resolve") from error
        if not addresses:
            raise EgressRefused(EgressVerdict.UNRESOLVED, 502, f"{place.host} has no address")
        try:
            self._policy.addresses.check_host(place.host, addresses)
        except AddressRefusedError as error:
            raise EgressRefused(EgressVerdict.ADDRESS_REFUSED, 403, str(error)) from None
        return addresses

    async def _connect(self, addresses: list[Address], place: HostPort) -> tuple[Address, Connection]:
        for address in addresses:
            with suppress(OSError):
                beyond = await self._outside.connect(address, place.port, self._policy.head_bytes)
                own = beyond[1].get_extra_info("sockname")[0]
                try:
                    self._policy.addresses.check_local_end(place.host, address, own)
                except AddressRefusedError as error:
                    beyond[1].transport.abort()
                    raise EgressRefused(EgressVerdict.ADDRESS_REFUSED, 403, str(error)) from None
                return address, beyond
        raise EgressRefused(EgressVerdict.UNREACHABLE, 502, f"{place} refuses connections or cannot be reached")


async def _accept(listener: socket.socket) -> socket.socket:
    """Return the next connection. The loop's `sock_accept` would lose a connection that arrives during cancellation."""
    while True:
        await wait_readable(listener.fileno())
        try:
            client, _ = listener.accept()
        except BlockingIOError:
            continue
        except OSError as error:  # too many open files in this process; other connections will close
            log.warning("egress_accept_failed", reason=str(error))
            await asyncio.sleep(_NO_ACCEPT_S)
        else:
            return client


@asynccontextmanager
async def _open_streams(client: socket.socket, head_bytes: int) -> AsyncIterator[Connection]:
    """Yield the run's side as streams; its peer has a second to read the last bytes."""
    client.setblocking(False)
    reader, writer = await adopt_socket(client, head_bytes)
    closed = False
    try:
        yield reader, writer
        writer.close()
        with suppress(OSError):
            closed = await finish_within(writer.wait_closed(), _PARTING_S)
    finally:
        if not closed:  # asyncio transports close only once
            writer.transport.abort()


async def _refuse(inside: Connection, refused: EgressRefused) -> None:
    """Send the reason in the status line, which is all that most clients show, and in the body."""
    reader, writer = inside
    body = f"{refused}\n".encode("ascii", "backslashreplace")
    head = f"HTTP/1.1 {refused.status} {refused}\r\ncontent-type: text/plain\r\ncontent-length: {len(body)}\r\n"
    writer.write(head.encode("ascii", "backslashreplace") + b"connection: close\r\n\r\n" + body)
    left = _PARTING_BYTES
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_PARTING_S):
            writer.write_eof()
            # Closing a socket with unread data resets it, and the answer might be lost.
            while left > 0 and (unheard := await reader.read(_PARTING_BYTES)):
                left -= len(unheard)
