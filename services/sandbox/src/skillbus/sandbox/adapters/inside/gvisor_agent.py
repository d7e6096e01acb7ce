"""Process 1 of a container: a file for the container's own Python (3.8 or newer), never imported.

It shares nothing with the host but its standard streams. Its standard input brings the two files of the agent, then a
job with everything that the run may see; its standard output takes frames as `agent.py` writes them, and four more:

    O, S  what the script printed to standard output, or to standard error
    P     the most memory of the tree so far: eight bytes (big-endian)
    W     a limit was passed, and everything was killed: its status, a zero byte, in words

Standard input stays open while the host wants the run: its end ends the container, also when the service is killed.
The script cannot kill process 1, nor look into it. Where the kernel does not see to that, as gVisor's did not in 2022,
the agent is root in the container, with what it takes to become another user and no more.
"""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not needed there
    from typing import NoReturn, TypedDict

    from skillbus.sandbox.adapters.inside import agent

    class Job(TypedDict):
        """What the host sends."""

        folders: dict[str, list[tuple[str, int, bytes]]]
        """By the folder where they are to be: relative path, file mode (of a link: 0), content (of a link: target)."""
        stdin: bytes
        exec: list[str]
        environment: dict[str, str]
        rlimits: dict[int, tuple[int, int]]
        filters: dict[str, bytes]
        """Of system calls, by the machine that they are for."""
        memory_bytes: int
        processes: int
        inodes: int
        artifacts: int
        artifacts_bytes: int

else:
    agent = sys.modules["agent"]

SKILL = "/skill"
WRITABLE = ("/work", "/tmp", "/dev/shm")  # noqa: S108 - the container's own
NOBODY = 65534
PR_CAPBSET_DROP = 24
F_ADD_SEALS = 1033
SEALS = 1 | 2 | 4 | 8  # F_SEAL_SEAL, _SHRINK, _GROW, _WRITE
CAPABILITIES = 64
CHUNK = 64 * 1024
LOOK_S = 0.02
PEAK_STEP = 1024 * 1024
"""A peak is told when it has grown by this."""


def receive(size: int) -> bytes:
    """Exactly `size` bytes of what the host sends; the host gone ends the container."""
    parts = []
    while size:
        part = os.read(0, min(size, 1 << 20))
        if not part:
            os._exit(3)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def unpack(folder: str, entries: list[tuple[str, int, bytes]]) -> None:
    """The run's own copies, and links as they are: they lead nowhere but into the container."""
    for name, mode, content in entries:
        path = os.path.join(folder, name)  # noqa: PTH118 - pathlib is slow, and this may be thousands
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        if not mode:
            os.symlink(content, os.fsencode(path))  # noqa: PTH211
            continue
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)


def in_memory(content: bytes) -> int:
    """Standard input: a file rather than a pipe, so that a script that does not read it blocks nobody."""
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    fcntl.fcntl(descriptor, F_ADD_SEALS, SEALS)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def become_nobody() -> None:
    """For good: what is root until here has no capability afterwards, and can gain none."""
    if os.getuid() != 0:
        return
    prctl = agent.libc.prctl
    for capability in range(CAPABILITIES):
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # those that the kernel does not know it refuses
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


class AsNobody:
    """What is made in it belongs to the script's user, who can open it again by its name in /proc."""

    def __enter__(self) -> None:
        if os.getuid() == 0:
            os.setegid(NOBODY)
            os.seteuid(NOBODY)

    def __exit__(self, *_: object) -> None:
        if os.getuid() == 0:
            os.seteuid(0)
            os.setegid(0)


def close_kernel(filters: dict[str, bytes]) -> None:
    """To all but the system calls that scripts need, whatever the engine's own filter leaves open."""
    instructions = filters.get(os.uname().machine)
    if instructions is None:
        raise OSError(f"there is no system call filter for {os.uname().machine}")
    agent.close_kernel(instructions)


def kill_the_rest() -> None:
    """Every process of the container but this one, until none is left."""
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.wait4(-1, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def become_script(job: Job, streams: tuple[int, int, int]) -> NoReturn:
    """In the child."""
    try:
        os.setsid()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        os.closerange(3, 1024)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        become_nobody()
        agent.set_dumpable(1)
        agent.go_first()
        os.chdir(SKILL)
        agent.default_signals()
        wanted = {kind: fitting(kind, *pair) for kind, pair in job["rlimits"].items()}
        # What is so already is left alone: gVisor refuses to set limits that it does not know.
        agent.limit_this_process({kind: pair for kind, pair in wanted.items() if resource.getrlimit(kind) != pair})
        close_kernel(job["filters"])
        os.execvpe(job["exec"][0], job["exec"], job["environment"])  # noqa: S606 - a shell is what must not come between
    except (OSError, ValueError) as error:
        os.write(2, f"the script could not be started: {error}\n".encode())
    finally:  # whatever it is, this process must not go on as the agent
        os._exit(126)


def fitting(kind: int, soft: int, hard: int) -> tuple[int, int]:
    """A limit of the script, or the container's own where that is lower: it cannot be raised."""
    ceiling = resource.getrlimit(kind)[1]
    return (soft, hard) if ceiling == resource.RLIM_INFINITY else (min(soft, ceiling), min(hard, ceiling))


class Tree:
    """The processes of the script, seen from process 1: there are no others."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.peak = self.told = 0
        self.looked = 0.0

    def look(self) -> None:
        """When it is time: end everything if a limit was passed."""
        now = time.monotonic()
        if now - self.looked < LOOK_S:
            return
        self.looked = now
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]  # noqa: PTH208
        found = [measured(pid) for pid in pids]
        size, count = sum(size for size, _ in found), sum(count for _, count in found)
        self.tell_peak(size)
        if size > self.job["memory_bytes"]:
            passed("memory", f"{size >> 20} MiB of memory, the limit is {self.job['memory_bytes'] >> 20} MiB")
        if count > self.job["processes"]:
            passed("killed", f"{count} processes, the limit is {self.job['processes']}")
        files = sum(map(inodes, WRITABLE))
        if files > self.job["inodes"]:
            passed("inodes", f"{files} files, the limit is {self.job['inodes']}")

    def tell_peak(self, size: int) -> None:
        """The host counts it when the run has ended."""
        self.peak = max(self.peak, size)
        if self.peak >= self.told + PEAK_STEP:
            self.told = self.peak
            agent.send(b"P", self.peak.to_bytes(8, "big"))


def measured(pid: int) -> tuple[int, int]:
    """Bytes of memory, and threads; nothing of one that has ended. Pages that forks share count in each."""
    size = count = 0
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
            fields = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
    except OSError:
        return 0, 0
    if b"RssAnon" in fields:
        size = sum(int(fields.get(name, b"0").split()[0]) for name in (b"RssAnon", b"RssShmem", b"VmPTE"))
    elif b"VmRSS" in fields:  # gVisor tells no more
        size = int(fields[b"VmRSS"].split()[0])
    if not fields.get(b"State", b"").strip().startswith(b"Z"):
        count = int(fields.get(b"Threads", b"1"))
    return size * 1024, count


def inodes(folder: str) -> int:
    """Files on its file system; 0 where that does not count them."""
    try:
        counts = os.statvfs(folder)
    except OSError:
        return 0
    return max(counts.f_files - counts.f_ffree, 0)


def passed(status: str, words: str) -> NoReturn:
    """The end of the run and of the container."""
    agent.send(b"W", status.encode() + b"\0" + words.encode())
    kill_the_rest()
    os._exit(0)


def oom_kills() -> int:
    """Processes of this container that the kernel ended for memory; 0 where that is not shown."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                lines = [line.split() for line in file.read().splitlines()]
        except OSError:
            continue
        return sum(int(words[1]) for words in lines if words[:1] == [b"oom_kill"])
    return 0


class Run:
    """The script's process, and what it prints."""

    def __init__(self, job: Job) -> None:
        self.tree = Tree(job)
        self.woken, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        with AsNobody():
            out, error = os.pipe(), os.pipe()
            stdin = in_memory(job["stdin"])
        job["stdin"] = b""
        self.child = os.fork()
        if self.child == 0:
            become_script(job, (stdin, out[1], error[1]))
        for descriptor in (stdin, out[1], error[1]):
            os.close(descriptor)
        self.kinds = {out[0]: b"O", error[0]: b"S"}

    def follow(self) -> bytes:
        """Until the script has ended and all that it printed was told; the payload of an X frame."""
        poll = select.poll()
        for descriptor in (0, self.woken, *self.kinds):
            poll.register(descriptor, select.POLLIN)
        ended = None
        while ended is None or self.kinds:
            for descriptor, _ in poll.poll(1000 * LOOK_S):
                if descriptor == 0 and not os.read(0, CHUNK):
                    os._exit(3)
                elif descriptor == self.woken:
                    os.read(self.woken, CHUNK)
                elif descriptor in self.kinds and not self.forward(descriptor):
                    poll.unregister(descriptor)
            ended = ended or self.reap()
            if ended is None:
                self.tree.look()
        return ended

    def forward(self, descriptor: int) -> bool:
        """Tell a piece of what was printed; False at its end."""
        chunk = os.read(descriptor, CHUNK)
        if chunk:
            agent.send(self.kinds[descriptor], chunk)
        else:
            del self.kinds[descriptor]
        return bool(chunk)

    def reap(self) -> bytes | None:
        """Bury the dead; when the script is among them, kill all the rest, so that nobody holds its streams."""
        while True:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return None
            if pid == self.child:
                break
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if number == signal.SIGKILL and oom_kills():
            passed("memory", "more memory than the container has")
        kill_the_rest()
        cpu_ms = int(1000 * (usage.ru_utime + usage.ru_stime))
        values = (-1 if number else os.WEXITSTATUS(status), number, cpu_ms)
        return b"".join(value.to_bytes(4, "big", signed=True) for value in values)


def main() -> None:
    """From the first word to the last."""
    agent.control = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(agent.control, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    agent.set_dumpable(0)
    agent.send(b"R")
    job: Job = marshal.loads(receive(int.from_bytes(receive(8), "big")))  # noqa: S302 - from the host
    try:
        for folder, entries in job["folders"].items():
            unpack(folder, entries)
        job["folders"] = {}
        with AsNobody():
            os.mkdir("/work/out")  # noqa: PTH102
    except OSError as error:
        passed("killed", f"the files of the run could not be written: {errno.errorcode.get(error.errno or 0)}")
    ended = Run(job).follow()
    agent.send(b"X", ended)
    become_nobody()
    if os.path.islink("/work/out"):  # noqa: PTH114 - gVisor's kernel of 2022 follows it whatever it is told
        agent.send(b"L", b"the output folder: a link")
    else:
        agent.Collector(job["artifacts"], job["artifacts_bytes"]).collect()
    agent.send(b"E")
    os._exit(0)


if __name__ == "__main__":
    main()
