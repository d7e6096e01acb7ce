"""Common part of all agents: the report to the host, limits, artifacts. Never imported by the service.

Runs on the sandbox's own Python (3.8 or newer), which receives it as source text. `agent_sandbox.py` runs scripts in
bubblewrap's sandboxes, `gvisor_agent.py` in containers.

A frame to the host is one byte of kind, four bytes of length (big-endian) and the payload:

    X  the script ended: exit code or -1, signal or 0, CPU milliseconds; four bytes each
    A  an artifact: two bytes of name length, the name, the content
    L  a file was left out: the reason as text
    E  end of the report
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
CAPABILITIES = 64
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 4, 22, 24, 38
SECCOMP_MODE_FILTER = 2
"""Source of all: prctl(2)."""
SYS_CLOSE_RANGE = 436
"""Equal on all processors. Source: `include/uapi/asm-generic/unistd.h`."""
BATCH_BYTES = 1 << 16
ENTRIES_MAX = 4096
DEPTH_MAX = 8

control = -1
"""Descriptor to which frames are written."""


libc = ctypes.CDLL(None, use_errno=True)


def check_call(result: int, what: str) -> None:
    """Raise OSError if a call of the C library failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def set_dumpable(value: int) -> None:
    """Set the dumpable flag. 0 hides this process's memory and descriptors from other processes of its user."""
    check_call(libc.prctl(PR_SET_DUMPABLE, value, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


def close_from(first: int, last: int = 0xFFFFFFFF) -> None:
    """Close every descriptor from `first` to `last`."""
    closed = libc.syscall(SYS_CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(last), ctypes.c_uint(0))
    check_call(closed, "descriptors were not closed")


class Program(ctypes.Structure):
    """The kernel's `struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def close_kernel(instructions: bytes) -> None:
    """Install the system call filter, for this process and everything that it starts."""
    check_call(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "new privileges were not forbidden")
    program = Program(len(instructions) // 8, instructions)
    taken = libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)
    check_call(taken, "the system call filter was not taken")


def empty_bounding_set() -> None:
    """Drop every capability that a program could gain."""
    for capability in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # the kernel refuses numbers that it does not know


def go_first() -> None:
    """Make this process and its children the first that the kernel kills when the machine runs out of memory."""
    try:
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except FileNotFoundError:  # a container without /proc
        return
    os.write(file, b"1000")
    os.close(file)


def receive_bytes(source: int, size: int) -> bytes:
    """Return exactly `size` bytes of a descriptor. Exit if the host has closed it."""
    parts = []
    while size:
        part = os.read(source, min(size, 1 << 20))
        if not part:
            os._exit(3)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def make_frame(kind: bytes, payload: bytes = b"") -> bytes:
    """Return a frame as it is sent."""
    return kind + len(payload).to_bytes(4, "big") + payload


def write_all(data: bytes | bytearray) -> None:
    """Write all of `data` to the host."""
    left = memoryview(data)
    while left:
        left = left[os.write(control, left) :]


def send_frame(kind: bytes, payload: bytes = b"") -> None:
    """Send one frame to the host."""
    write_all(make_frame(kind, payload))


def encode_end(status: int, usage: resource.struct_rusage) -> bytes:
    """Return the payload of an X frame from the wait status and the usage of the script's process."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    values = (-1 if number else os.WEXITSTATUS(status), number, int(1000 * (usage.ru_utime + usage.ru_stime)))
    return b"".join(value.to_bytes(4, "big", signed=True) for value in values)


def limit_this_process(rlimits: dict[int, tuple[int, int]]) -> None:
    """Set hard limits. Done inside the sandbox, because NPROC counts the processes of a user namespace."""
    for kind, (soft, hard) in rlimits.items():
        resource.setrlimit(kind, (soft, hard))


def default_signals() -> None:
    """Reset the signals that Python ignores. A program would inherit that, and `yes | head` would never end."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


class FrameBuffer:
    """Frames to the host, sent in batches: each write wakes the host up."""

    def __init__(self) -> None:
        self.unsent = bytearray()

    def add_frame(self, kind: bytes, payload: bytes = b"") -> None:
        """Add one frame. Send all once there are enough bytes."""
        self.unsent += make_frame(kind, payload)
        if len(self.unsent) > BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send all frames that were added."""
        write_all(self.unsent)
        self.unsent = bytearray()


class FullError(Exception):
    """An artifact limit is reached."""


class Collector:
    """Sends the regular files of the output folder. Follows no link and opens nothing that blocks."""

    def __init__(self, files: int, size: int, add: Callable[[bytes, bytes], None] = send_frame) -> None:
        self.files, self.size, self.entries, self.add = files, size, ENTRIES_MAX, add

    def collect_files(self) -> None:
        """Send as many files as the limits allow, and a reason for the rest."""
        try:
            folder = os.open(OUT, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            self.walk_folder(folder, b"", 1)
        except FullError as full:
            self.add(b"L", str(full).encode())
        except OSError as error:
            self.add(b"L", f"the output folder: {error.strerror}".encode())

    def walk_folder(self, folder: int, prefix: bytes, depth: int) -> None:
        """Visit the entries of a folder, given by its descriptor, in the order of their names."""
        for name in sorted(map(os.fsencode, os.listdir(folder))):
            self.entries -= 1
            if self.entries < 0:
                raise FullError(f"more than {ENTRIES_MAX} entries in the output folder")
            try:
                self.visit_entry(folder, name, prefix + name, depth)
            except OSError:
                self.add(b"L", b"not a readable regular file: " + prefix + name)

    def visit_entry(self, folder: int, name: bytes, path: bytes, depth: int) -> None:
        """Walk a folder, send a regular file, leave out anything else."""
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            kind = os.fstat(descriptor).st_mode & 0o170000
            if kind == 0o040000 and depth < DEPTH_MAX:
                self.walk_folder(descriptor, path + b"/", depth + 1)
            elif kind == 0o100000:
                self.send_file(descriptor, path)
            else:
                self.add(b"L", b"not a regular file: " + path)
        finally:
            os.close(descriptor)

    def send_file(self, descriptor: int, path: bytes) -> None:
        """Send one file if it is within the limits. Holes of a sparse file count, because they are sent."""
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
        self.add(b"A", len(path).to_bytes(2, "big") + path + content)
