"""HTTP transport that judges addresses: a name is resolved once, and a judged address is connected to.

The name stays in the `Host` header and in TLS, so certificates are checked against it. Proxies of the environment are
not used: behind one, nobody here would see the address.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Final

import httpcore
import httpx

from skillbus.common.outbound.addresses import Address, AddressRule, read_address
from skillbus.common.outbound.secret_grants import Destination

Resolve = Callable[[str], Awaitable[Sequence[Address]]]

_TRY_S: Final = 3.0
"""Longest wait for an address while others of the name are left."""


@cache
def load_authorities() -> ssl.SSLContext:
    """Return settings of TLS with the certificate authorities of this installation, the same for all connections.

    The first call takes 30 ms: make it in a thread.
    """
    return httpx.create_ssl_context()


async def resolve_host(host: str) -> Sequence[Address]:
    """Return the current addresses of a name or an address in any notation. Raises OSError if it does not resolve."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    except UnicodeError:
        raise OSError("not a host name") from None
    return list(dict.fromkeys(map(read_address, (entry[4] for entry in found))))


def read_destination(url: httpx.URL) -> Destination:
    """Return the place that a request to the address goes to."""
    return Destination(url.scheme, url.raw_host.decode("ascii"), url.port)


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """TCP to the addresses that a rule allows."""

    def __init__(self, rule: AddressRule, resolve: Resolve = resolve_host) -> None:
        self._rule = rule
        self._resolve = resolve
        self._tcp = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that answers. Raises AddressRefusedError, and errors of httpcore."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._resolve(host)
                self._rule.check_host(host, addresses)
                return await self._connect(host, addresses, port)
        except TimeoutError:
            raise httpcore.ConnectTimeout from None
        except OSError as error:
            raise httpcore.ConnectError(f"{host} does not resolve: {error.strerror or error}") from None

    async def _connect(self, host: str, addresses: Sequence[Address], port: int) -> httpcore.AsyncNetworkStream:
        for left, address in zip(range(len(addresses) - 1, -1, -1), addresses, strict=True):
            try:
                stream = await self._tcp.connect_tcp(str(address), port, timeout=_TRY_S if left else None)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if left:
                    continue
                raise
            try:
                self._rule.check_local_end(host, address, str(stream.get_extra_info("client_addr")[0]))
            except BaseException:
                await stream.aclose()
                raise
            return stream
        raise httpcore.ConnectError(f"{host} has no address")


class GuardedTransport(httpx.AsyncHTTPTransport):
    """Transport of httpx over `GuardedNetwork`. It raises AddressRefusedError beside the errors of httpx."""

    def __init__(
        self,
        rule: AddressRule,
        tls: ssl.SSLContext,
        limits: httpx.Limits | None = None,
        resolve: Resolve = resolve_host,
    ) -> None:
        super().__init__(verify=tls, trust_env=False)
        limits = limits or httpx.Limits(max_connections=100, max_keepalive_connections=20)
        # httpx has no parameter for httpcore's network; the pool is the same otherwise.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=GuardedNetwork(rule, resolve),
        )
