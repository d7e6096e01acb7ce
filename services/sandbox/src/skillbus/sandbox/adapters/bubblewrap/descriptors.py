"""File descriptors of a sandbox: files in memory that it inherits, and streams of bytes that it sends."""

import asyncio
import fcntl
import os
from contextlib import ExitStack
from typing import Final

_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
_CHUNK: Final = 1024 * 1024


def make_memory_file(stack: ExitStack, content: bytes) -> int:
    """Return the descriptor of a file in memory with `content`, positioned at its beginning. `stack` closes it."""
    descriptor = os.memfd_create("skillbus", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, descriptor)
    written = 0
    while written < len(content):
        written += os.pwrite(descriptor, content[written:] if written else content, written)
    return descriptor


def make_sealed_file(stack: ExitStack, content: bytes) -> int:
    """Return a read-only descriptor of a file in memory that nobody can change. `stack` closes it."""
    writable = make_memory_file(stack, content)
    fcntl.fcntl(writable, fcntl.F_ADD_SEALS, _SEALS)
    descriptor = os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


class IncomingStream:
    """Stream of bytes from a descriptor, for one reader at a time.

    asyncio's streams cost a quarter of a millisecond to open, and end only when every writer has closed the pipe.
    Bubblewrap is one of the writers, and outlives the run for as long as the kernel takes to reap it.
    """

    def __init__(self, descriptor: int) -> None:
        """Create it in the loop that reads it. The owner of `descriptor` calls `stop` before closing it."""
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._moved = asyncio.Event()
        self._finished = False

    async def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, waiting for at least one; empty at the end."""
        while True:
            try:
                return os.read(self._descriptor, size)
            except BlockingIOError:
                if self._finished:
                    return b""
            except ConnectionError:  # the other side ended without reading everything we sent
                return b""
            # Not `wait_readable`: `finish` must wake the reader as well.
            self._moved.clear()
            self._loop.add_reader(self._descriptor, self._moved.set)
            try:
                await self._moved.wait()
            finally:
                self._loop.remove_reader(self._descriptor)

    async def readexactly(self, size: int, /) -> bytes:
        """Return exactly `size` bytes. Raises IncompleteReadError if the stream ends before."""
        data = bytearray()
        while len(data) < size:
            chunk = await self.read(min(size - len(data), _CHUNK))
            if not chunk:
                raise asyncio.IncompleteReadError(bytes(data), size)
            data += chunk
        return bytes(data)

    def finish(self) -> None:
        """End the stream after the bytes already in it: every writer is dead."""
        self._finished = True
        self._moved.set()

    def stop(self) -> None:
        """Stop waiting for the descriptor, before its owner closes it."""
        self._loop.remove_reader(self._descriptor)
