"""What a sandbox sends through a pipe or a socket, read from the descriptor itself.

A stream with its transport costs a quarter of a millisecond to open, and ends only when every writer has closed it:
among them is bubblewrap, which outlives the run by as long as the kernel takes to bury it.
"""

import asyncio
import os
from typing import Final

_CHUNK: Final = 1024 * 1024


class Incoming:
    """`Readable`, by one reader at a time."""

    def __init__(self, descriptor: int) -> None:
        """To be made in the loop that it is read in; the descriptor is closed by whoever opened it, after `stop`."""
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._moved = asyncio.Event()
        self._finished = False

    async def read(self, size: int, /) -> bytes:
        """What has come, at most `size` bytes; nothing when no more will."""
        while True:
            try:
                return os.read(self._descriptor, size)
            except BlockingIOError:
                if self._finished:
                    return b""
            except ConnectionError:  # the other side ended, and left unread what we sent
                return b""
            await self._until_moved()

    async def readexactly(self, size: int, /) -> bytes:
        """So many bytes. Raises IncompleteReadError when no more come."""
        data = bytearray()
        while len(data) < size:
            chunk = await self.read(min(size - len(data), _CHUNK))
            if not chunk:
                raise asyncio.IncompleteReadError(bytes(data), size)
            data += chunk
        return bytes(data)

    def finish(self) -> None:
        """All who could write are dead: what is in it is all that there will be."""
        self._finished = True
        self._moved.set()

    def stop(self) -> None:
        """Nobody reads any more."""
        self._loop.remove_reader(self._descriptor)

    async def _until_moved(self) -> None:
        self._moved.clear()
        self._loop.add_reader(self._descriptor, self._moved.set)
        try:
            await self._moved.wait()
        finally:
            self._loop.remove_reader(self._descriptor)
