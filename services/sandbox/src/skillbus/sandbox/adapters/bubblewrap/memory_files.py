"""Files in memory, for a child process to inherit or receive. Closed with the exit stack that they are made on."""

import fcntl
import os
from contextlib import ExitStack
from typing import Final

_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


def make_memory_file(stack: ExitStack, content: bytes) -> int:
    """Return the descriptor of a file with `content`, positioned at its beginning."""
    descriptor = os.memfd_create("skillbus", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, descriptor)
    written = 0
    while written < len(content):
        written += os.pwrite(descriptor, content[written:] if written else content, written)
    return descriptor


def make_sealed_file(stack: ExitStack, content: bytes) -> int:
    """Return a read-only descriptor of a file with `content` that nobody can change."""
    writable = make_memory_file(stack, content)
    fcntl.fcntl(writable, fcntl.F_ADD_SEALS, _SEALS)
    descriptor = os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor
