"""Process 1 inside a sandbox: a file for the sandbox's own Python (3.8 or newer), never imported.

It takes one job from the control socket, runs the script as its child, kills whatever is left, hands the artifacts back
and exits. Python scripts run in a fork of this process, which saves the start of a second interpreter; so it imports
only what costs next to nothing, and nothing of the skill's folder is on its path.

Started ahead of any run, as `agent.py <descriptor> warm`, it makes the fork that the script will run in, which imports
what most Python scripts ask for, until the job comes. A module that the skill brings itself is forgotten again, so that
the script finds its own. As `agent.py <descriptor> warm <node> <boot file>` it has started Node, which waits for the
name of its script.

The job comes with a descriptor for standard input, unless that is empty.

Frames to the host: one byte of kind, four bytes of length (big-endian), the payload.

    R  ready to take a job
    X  the script ended: exit code or -1, signal or 0, CPU milliseconds; four bytes each
    A  an artifact: two bytes of name length, the name, the content
    L  something was left out: why, as text
    E  the end
"""

from __future__ import annotations

import _ctypes  # ctypes costs five times as much
import _signal  # type: ignore[import-not-found]  # signal itself costs an enum
import _socket  # socket itself costs ten times as much
import gc
import marshal
import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs more than all the rest
    from collections.abc import Callable
    from types import CodeType
    from typing import Protocol, TypedDict

    class Job(TypedDict):
        """What the host sends."""

        script: str
        argv: list[str]
        path: list[str]
        packages: list[str]
        exec: list[str]
        rlimits: dict[int, tuple[int, int]]
        artifacts: int
        artifacts_bytes: int

    class Waiting(Protocol):
        """A process that waits to become a script."""

        child: int
        """It; 0 in itself."""

        def receive(self) -> tuple[bytes, int | None]:
            """The job as the host wrote it, and a descriptor of its standard input that is to be closed."""

        def run(self, job: Job, stdin: int | None) -> int:
            """Let it become the script of a job: its process, or 0 in itself."""


OUT = b"/work/out"
PYTHON, WARM = "/agent_python.pyc", "/agent_warm.pyc"
PYC_HEADER = 16
RELAY = "/relay.py"
RELAY_PORT = 3128
PR_SET_DUMPABLE = 4
TOGETHER = 1 << 16
ENTRIES_MAX = 4096
DEPTH_MAX = 8

control: int
"""The host's end of the conversation is at the other side of this descriptor."""
python: dict[str, Callable[..., None]] = {}
"""What runs Python scripts, once it is loaded."""
imported: set[str] = set()
"""Modules that were imported ahead."""


def set_dumpable(value: int) -> None:
    """0 makes this process's memory and descriptors unreachable to others of its user."""
    prctl = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), "prctl")  # type: ignore[arg-type]  # None is the program itself
    if _ctypes.call_function(prctl, (PR_SET_DUMPABLE, value, 0, 0, 0)) != 0:
        raise OSError("prctl(PR_SET_DUMPABLE) failed")


def go_first() -> None:
    """When the machine runs out of memory, this and all that it starts is the first to go."""
    try:
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except FileNotFoundError:  # at the level without /proc, where whoever started this has said it
        return
    os.write(file, b"1000")
    os.close(file)


def receive(size: int) -> bytes:
    """Exactly `size` bytes of the control socket; the host gone ends this process."""
    data = b""
    while len(data) < size:
        chunk = os.read(control, min(size - len(data), 1 << 20))
        if not chunk:
            os._exit(3)
        data += chunk
    return data


def receive_job() -> tuple[bytes, int | None]:
    """The job as the host wrote it, and the descriptor of its standard input."""
    peer = _socket.socket(fileno=os.dup(control))
    header, passed, _, _ = peer.recvmsg(8, _socket.CMSG_SPACE(4))
    peer.close()
    if not header:
        os._exit(3)
    header += receive(8 - len(header))
    stdin = int.from_bytes(passed[0][2][:4], sys.byteorder) if passed else None
    return receive(int.from_bytes(header, "big")), stdin


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


def become_script(job: Job, stdin: int | None) -> None:
    """In the child: for Node and bash replace this process; for Python return, to go on at module level."""
    os.setsid()
    os.close(control)
    if stdin is not None:
        os.dup2(stdin, 0)
        os.close(stdin)
    limit_this_process(job["rlimits"])
    if job["exec"]:
        default_signals()
        os.execv(job["exec"][0], job["exec"])  # noqa: S606 - a shell is what must not come between
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    set_dumpable(1)


def default_signals() -> None:
    """What Python ignores at its start would stay ignored in the program: `yes | head` would never end."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGINT):
        _signal.signal(number, _signal.SIG_DFL)


def kill_the_rest() -> None:
    """Every process of the sandbox but this one, until none is left."""
    try:
        os.kill(-1, _signal.SIGKILL)
        while True:
            os.wait4(-1, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def start_relay(job: Job) -> None:
    """Where there is a way out: listen at its entry, and have another process pass on what comes.

    It has the limits of the script, and like this process none of its memory is open to it.
    """
    entry = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    entry.bind(("127.0.0.1", RELAY_PORT))
    entry.listen(64)
    if os.fork() == 0:
        os.close(control)
        os.setsid()
        limit_this_process(job["rlimits"])
        names: dict[str, Callable[[int], None]] = {}
        with open(RELAY, "rb") as file:  # noqa: PTH123 - pathlib costs more than all the rest
            exec(compile(file.read(), RELAY, "exec"), names)  # noqa: S102 - another part of this one
        names["run"](entry.detach())
        os._exit(1)
    entry.close()


def reap(child: int) -> bytes:
    """Wait for the child, reaping orphans, then kill and reap all the rest. The payload of an X frame."""
    while True:
        pid, status, usage = os.wait4(-1, 0)
        if pid == child:
            break
    kill_the_rest()
    signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = -1 if signal else os.WEXITSTATUS(status)
    cpu_ms = int(1000 * (usage.ru_utime + usage.ru_stime))
    return b"".join(value.to_bytes(4, "big", signed=True) for value in (code, signal, cpu_ms))


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


def load_python() -> None:
    """What runs a Python script, from a file of its own: other runs do without it."""
    if not python:
        exec(code_of(PYTHON), python)  # noqa: S102 - from the host


def load_warm() -> dict[str, Callable[..., Waiting]]:
    """What waits for a job, likewise."""
    names: dict[str, Callable[..., Waiting]] = {}
    exec(code_of(WARM), names)  # noqa: S102 - from the host
    return names


def code_of(path: str) -> CodeType:
    """Of a part of the agent."""
    file = os.open(path, os.O_RDONLY)
    data = os.read(file, os.fstat(file).st_size)
    os.close(file)
    code: CodeType = marshal.loads(data[PYC_HEADER:])  # noqa: S302 - from the host
    return code


def begin(job: Job) -> int:
    """The process that becomes the script; 0 in itself.

    What a Python script will surely need is done before: a fork copies each page that it is the first to write to.
    """
    if os.access(RELAY, os.R_OK):
        start_relay(job)
    if not job["exec"]:
        load_python()
        python["be_ready_for"](job["script"], imported)
        gc.freeze()
    return os.fork()


def serve(warm: list[str]) -> Job:
    """Process 1 ends in here; only the child of a Python run returns, with the job."""
    # What bubblewrap or the caller left open is closed before anything of the skill runs.
    os.closerange(3, control)
    os.closerange(control + 1, 1024)
    os.set_inheritable(control, False)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    go_first()
    set_dumpable(0)
    waiting = load_warm()["wait"](warm[1:]) if warm else None
    if waiting is None or waiting.child:
        gc.freeze()  # what is here already is not looked through in the script's process, nor copied for it
        send(b"R")
    written, stdin = waiting.receive() if waiting is not None else receive_job()
    job: Job = marshal.loads(written)  # noqa: S302 - from the host
    child = begin(job) if waiting is None else waiting.run(job, stdin)
    if child == 0:
        become_script(job, stdin)
        return job
    if stdin is not None:
        os.close(stdin)
    account = Account()
    account.tell(b"X", reap(child))
    Collector(job["artifacts"], job["artifacts_bytes"], account.tell).collect()
    account.tell(b"E")
    account.send()
    os._exit(0)


if __name__ == "__main__":
    gc.disable()  # nothing of this is garbage; the script's process enables it
    control = int(sys.argv[1])
    given = serve(sys.argv[2:])
    load_python()
    python["run_python"](given, imported)
