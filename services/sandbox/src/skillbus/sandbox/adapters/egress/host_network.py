"""Network of the host, for the proxies of runs."""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Address, ip_address
from typing import Final

from skillbus.sandbox.domain.egress import Address, Connection

_RESOLVERS: Final = 2
"""Resolver threads of one run, so that slow names delay no other run."""


class HostNetwork:
    """`OutsideNetwork` with the host's resolver and TCP."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="egress-resolver")

    async def resolve_host(self, host: str) -> Sequence[Address]:
        ask = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return list(dict.fromkeys(ip_address(str(entry[4][0])) for entry in found))

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
