"""Worker process that only says that it is ready, and answers whether it is alive."""

import asyncio
import os
import socket
import sys

from skillbus.standalone.workers.channel import open_channel
from skillbus.standalone.workers.pool import PING, REPORT_READY


async def serve_pings(end: socket.socket) -> None:
    """Answer until the process at the other end is gone."""

    async def answer_ping() -> None:
        return None

    async with open_channel(end, {PING: answer_ping}) as channel:
        await channel.call(REPORT_READY, os.getpid())
        await channel.closed.wait()


if __name__ == "__main__":
    asyncio.run(serve_pings(socket.socket(fileno=int(sys.argv[2]))))
