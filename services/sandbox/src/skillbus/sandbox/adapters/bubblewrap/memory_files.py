"""Files in memory, to be inherited or sent."""

import fcntl
import os
from contextlib import ExitStack
from typing import Final

_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


def in_memory(stack: ExitStack, content: bytes) -> int:
    """A descriptor of one with `content`, read from its beginning; closed with `stack`."""
    descriptor = os.memfd_create("skillbus", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, descriptor)
    written = 0
    while written < len(content):
        written += os.pwrite(descriptor, content[written:] if written else content, written)
    return descriptor


def sealed(stack: ExitStack, content: bytes) -> int:
    """As `in_memory`, to be read only, and changed by nobody."""
    writable = in_memory(stack, content)
    fcntl.fcntl(writable, fcntl.F_ADD_SEALS, _SEALS)
    descriptor = os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor
