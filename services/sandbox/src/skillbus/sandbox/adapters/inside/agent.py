"""What the agents of all runs share: what is said to the host, limits, artifacts. Never imported by the service.

For the sandbox's own Python (3.8 or newer), which is given it as source: `agent_sandbox.py` runs scripts in what
bubblewrap makes, `engine_agent.py` in containers.

Frames to the host: one byte of kind, four bytes of length (big-endian), the payload.

    X  the script ended: exit code or -1, signal or 0, CPU milliseconds; four bytes each
    A  an artifact: two bytes of name length, the name, the content
    L  something was left out: why, as text
    E  the end
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

OUT = b"/work/out"
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 4, 22, 38
SECCOMP_MODE_FILTER = 2
"""Source of all: prctl(2)."""
SYS_CLOSE_RANGE = 436
"""Of every processor; source: `include/uapi/asm-generic/unistd.h`."""
TOGETHER = 1 << 16
ENTRIES_MAX = 4096
DEPTH_MAX = 8

control = -1
"""The host's end of the conversation is at the other side of this descriptor."""


libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Of a call of the C library. Raises OSError when it failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def set_dumpable(value: int) -> None:
    """0 makes this process's memory and descriptors unreachable to others of its user."""
    check(libc.prctl(PR_SET_DUMPABLE, value, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


def close_from(first: int, last: int = 0xFFFFFFFF) -> None:
    """Every descriptor from `first` to `last`, however high it is."""
    closed = libc.syscall(SYS_CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(last), ctypes.c_uint(0))
    check(closed, "descriptors were not closed")


class Program(ctypes.Structure):
    """`struct sock_fprog` of the kernel."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def close_kernel(instructions: bytes) -> None:
    """To all but the system calls that scripts need, for this process and all that it starts."""
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "new privileges were not forbidden")
    program = Program(len(instructions) // 8, instructions)
    taken = libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)
    check(taken, "the system call filter was not taken")


def go_first() -> None:
    """When the machine runs out of memory, this and all that it starts is the first to go."""
    try:
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except FileNotFoundError:  # a container without /proc
        return
    os.write(file, b"1000")
    os.close(file)


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """As it is sent."""
    return kind + len(payload).to_bytes(4, "big") + payload


def write(data: bytes | bytearray) -> None:
    """All of it, to the host."""
    left = memoryview(data)
    while left:
        left = left[os.write(control, left) :]


def send(kind: bytes, payload: bytes = b"") -> None:
    """One frame to the host."""
    write(frame(kind, payload))


def limit_this_process(rlimits: dict[int, tuple[int, int]]) -> None:
    """Hard limits, set here and not outside: NPROC is counted for each user namespace."""
    for kind, (soft, hard) in rlimits.items():
        resource.setrlimit(kind, (soft, hard))


def default_signals() -> None:
    """What Python ignores at its start would stay ignored in the program: `yes | head` would never end."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


class Account:
    """Frames to the host, a few in one go: each that it gets wakes it up."""

    def __init__(self) -> None:
        self.unsent = bytearray()

    def tell(self, kind: bytes, payload: bytes = b"") -> None:
        """One frame, sent now or soon."""
        self.unsent += frame(kind, payload)
        if len(self.unsent) > TOGETHER:
            self.send()

    def send(self) -> None:
        """All that was not sent yet."""
        write(self.unsent)
        self.unsent = bytearray()


class FullError(Exception):
    """An artifact limit is reached."""


class Collector:
    """Tells the regular files under a folder, following no link and opening nothing that blocks."""

    def __init__(self, files: int, size: int, tell: Callable[[bytes, bytes], None] = send) -> None:
        self.files, self.size, self.entries, self.tell = files, size, ENTRIES_MAX, tell

    def collect(self) -> None:
        """Everything, or as much as the limits allow and a word on the rest."""
        try:
            folder = os.open(OUT, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            self.walk(folder, b"", 1)
        except FullError as full:
            self.tell(b"L", str(full).encode())
        except OSError as error:
            self.tell(b"L", f"the output folder: {error.strerror}".encode())

    def walk(self, folder: int, prefix: bytes, depth: int) -> None:
        """One folder, by its descriptor, in the order of names."""
        for name in sorted(map(os.fsencode, os.listdir(folder))):
            self.entries -= 1
            if self.entries < 0:
                raise FullError(f"more than {ENTRIES_MAX} entries in the output folder")
            try:
                self.visit(folder, name, prefix + name, depth)
            except OSError:
                self.tell(b"L", b"not a readable regular file: " + prefix + name)

    def visit(self, folder: int, name: bytes, path: bytes, depth: int) -> None:
        """One entry: a folder is walked, a regular file told, anything else left out."""
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            kind = os.fstat(descriptor).st_mode & 0o170000
            if kind == 0o040000 and depth < DEPTH_MAX:
                self.walk(descriptor, path + b"/", depth + 1)
            elif kind == 0o100000:
                self.send_file(descriptor, path)
            else:
                self.tell(b"L", b"not a regular file: " + path)
        finally:
            os.close(descriptor)

    def send_file(self, descriptor: int, path: bytes) -> None:
        """One file, when it is within the limits. Its size may be sparse: what counts is what is sent."""
        size = os.fstat(descriptor).st_size
        if self.files < 1:
            raise FullError("more artifacts than the limit")
        if size > self.size:
            raise FullError("artifacts larger than the limit")
        content = b""
        while len(content) < size:
            chunk = os.read(descriptor, size - len(content))
            if not chunk:
                break
            content += chunk
        self.files -= 1
        self.size -= len(content)
        self.tell(b"A", len(path).to_bytes(2, "big") + path + content)
