"""The host's network, for the proxies of runs."""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Address, ip_address
from typing import Final

from skillbus.sandbox.domain.network import Address, Connection

_RESOLVERS: Final = 2
"""Threads of one run's own: names that are slow to resolve hold up nobody else."""


class HostNetwork:
    """`Outside` by the host's resolver and its TCP."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="egress-resolver")

    async def addresses(self, host: str) -> Sequence[Address]:
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
        return await adopted(connection, head_bytes)

    def close(self) -> None:
        """Nothing is begun any more; what a thread still waits for is left to it."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def adopted(connection: socket.socket, head_bytes: int) -> Connection:
    """A connected socket as streams, which close it.

    It is a matter of one turn of the loop, and is seen to its end when cancelled: cut short there, it would be left to
    the loop's kind who closes the descriptor, once or twice.
    """
    opening = asyncio.ensure_future(asyncio.open_connection(sock=connection, limit=head_bytes))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        _, writer = await opening
        writer.transport.abort()
        raise
