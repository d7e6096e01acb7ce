"""Files in memory, to be inherited or sent."""

import os
from contextlib import ExitStack


def in_memory(stack: ExitStack, content: bytes) -> int:
    """A descriptor of one with `content`, read from its beginning; closed with `stack`."""
    descriptor = os.memfd_create("skillbus", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, descriptor)
    written = 0
    while written < len(content):
        written += os.pwrite(descriptor, content[written:] if written else content, written)
    return descriptor
