"""Process 1 of a gVisor container, on the container's own Python (3.8 or newer). Never imported by the service.

Its only link to the host is its standard streams. Standard input brings the two files of the agent, then a job with
everything that the run may see. Standard output takes the frames of `agent.py` and four more kinds:

    O, S  output of the script: standard output, standard error
    P     largest memory of the process tree so far: eight bytes (big-endian)
    W     a limit was passed and everything was killed: status, a zero byte, detail

Standard input stays open while the host wants the run. Its end ends the container, also when the service is killed.

The script cannot kill or inspect process 1. gVisor's kernel of 2022 does not ensure that itself, so the agent is root
in the container, with only the capabilities needed to change the script's user and to kill it.
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

    class ContainerJob(TypedDict):
        """The host's description of a run."""

        folders: dict[str, list[tuple[str, int, bytes]]]
        """Files by folder: relative path, file mode (0 for a link), content (target for a link)."""
        stdin: bytes
        exec: list[str]
        environment: dict[str, str]
        rlimits: dict[int, tuple[int, int]]
        filter: bytes
        """The system call filter."""
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
F_ADD_SEALS = 1033
SEALS = 1 | 2 | 4 | 8  # F_SEAL_SEAL, _SHRINK, _GROW, _WRITE
CHUNK = 64 * 1024
LOOK_S = 0.02
PEAK_STEP = 1024 * 1024
"""Growth in bytes after which a new peak is reported."""


def unpack_files(folder: str, entries: list[tuple[str, int, bytes]]) -> None:
    """Write the files of a folder. Links stay links: they can only lead to files of the container."""
    for name, mode, content in entries:
        path = os.path.join(folder, name)  # noqa: PTH118 - pathlib is slow, and there may be thousands
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        if not mode:
            os.symlink(content, os.fsencode(path))  # noqa: PTH211
            continue
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)


def make_stdin(content: bytes) -> int:
    """Make standard input as a file in memory, not a pipe: a script that does not read it then blocks nobody."""
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    fcntl.fcntl(descriptor, F_ADD_SEALS, SEALS)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def become_nobody() -> None:
    """Change from root to an unprivileged user, for good: no capability is left and none can be gained."""
    agent.empty_bounding_set()
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


class AsNobody:
    """Context in which new files belong to the script's user, who can open them again by their names in /proc."""

    def __enter__(self) -> None:
        os.setegid(NOBODY)
        os.seteuid(NOBODY)

    def __exit__(self, *_: object) -> None:
        os.seteuid(0)
        os.setegid(0)


def kill_the_rest() -> None:
    """Kill every process of the container but this one, until none is left."""
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.wait4(-1, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def become_script(job: ContainerJob, streams: tuple[int, int, int]) -> NoReturn:
    """Replace this process, a fork of the agent, by the script."""
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
        wanted = {kind: lower_limit(kind, *pair) for kind, pair in job["rlimits"].items()}
        # Limits that already hold are not set: gVisor refuses to set kinds that it does not know.
        agent.limit_this_process({kind: pair for kind, pair in wanted.items() if resource.getrlimit(kind) != pair})
        agent.close_kernel(job["filter"])
        os.execvpe(job["exec"][0], job["exec"], job["environment"])  # noqa: S606 - no shell may interpret the arguments
    except (OSError, ValueError) as error:
        os.write(2, f"the script could not be started: {error}\n".encode())
    finally:  # after any error, this process must not continue as the agent
        os._exit(126)


def lower_limit(kind: int, soft: int, hard: int) -> tuple[int, int]:
    """Return a limit of the script, or the container's own if that is lower, since it cannot be raised."""
    ceiling = resource.getrlimit(kind)[1]
    return (soft, hard) if ceiling == resource.RLIM_INFINITY else (min(soft, ceiling), min(hard, ceiling))


class ProcessTree:
    """All processes of the container except process 1: those of the script."""

    def __init__(self, job: ContainerJob) -> None:
        self.job = job
        self.peak = self.reported = 0
        self.looked = 0.0

    def check_limits(self) -> None:
        """Check the limits every 20 ms; if one was passed, report it and end everything."""
        now = time.monotonic()
        if now - self.looked < LOOK_S:
            return
        self.looked = now
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]  # noqa: PTH208
        found = [measure_process(pid) for pid in pids]
        size, count = sum(size for size, _ in found), sum(count for _, count in found)
        self.peak = max(self.peak, size)
        if self.peak >= self.reported + PEAK_STEP:
            self.reported = self.peak
            agent.send_frame(b"P", self.peak.to_bytes(8, "big"))
        if size > self.job["memory_bytes"]:
            end_for("memory", f"{size >> 20} MiB of memory, the limit is {self.job['memory_bytes'] >> 20} MiB")
        if count > self.job["processes"]:
            end_for("killed", f"{count} processes, the limit is {self.job['processes']}")
        files = sum(map(count_inodes, WRITABLE))
        if files > self.job["inodes"]:
            end_for("inodes", f"{files} files, the limit is {self.job['inodes']}")


def measure_process(pid: int) -> tuple[int, int]:
    """Return bytes of memory and number of threads; zeros if it has ended. Pages shared by forks count in each."""
    size = count = 0
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
            fields = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
    except OSError:
        return 0, 0
    if b"RssAnon" in fields:
        size = sum(int(fields.get(name, b"0").split()[0]) for name in (b"RssAnon", b"RssShmem", b"VmPTE"))
    elif b"VmRSS" in fields:  # gVisor reports no other figure
        size = int(fields[b"VmRSS"].split()[0])
    if not fields.get(b"State", b"").strip().startswith(b"Z"):
        count = int(fields.get(b"Threads", b"1"))
    return size * 1024, count


def count_inodes(folder: str) -> int:
    """Return the number of files on a file system; 0 if it does not count them."""
    try:
        counts = os.statvfs(folder)
    except OSError:
        return 0
    return max(counts.f_files - counts.f_ffree, 0)


def end_for(status: str, detail: str) -> NoReturn:
    """Report a passed limit, then end the run and the container."""
    agent.send_frame(b"W", status.encode() + b"\0" + detail.encode())
    kill_the_rest()
    os._exit(0)


class ScriptRun:
    """The script's process and its output."""

    def __init__(self, job: ContainerJob) -> None:
        self.tree = ProcessTree(job)
        self.woken, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        with AsNobody():
            out, error = os.pipe(), os.pipe()
            stdin = make_stdin(job["stdin"])
        job["stdin"] = b""
        self.child = os.fork()
        if self.child == 0:
            become_script(job, (stdin, out[1], error[1]))
        for descriptor in (stdin, out[1], error[1]):
            os.close(descriptor)
        self.kinds = {out[0]: b"O", error[0]: b"S"}

    def follow_script(self) -> bytes:
        """Wait until the script has ended and all its output is sent. Return the payload of an X frame."""
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
                elif descriptor in self.kinds and not self.forward_chunk(descriptor):
                    poll.unregister(descriptor)
            ended = ended or self.reap_children()
            if ended is None:
                self.tree.check_limits()
        return ended

    def forward_chunk(self, descriptor: int) -> bool:
        """Send a chunk of output; return False at its end."""
        chunk = os.read(descriptor, CHUNK)
        if chunk:
            agent.send_frame(self.kinds[descriptor], chunk)
        else:
            del self.kinds[descriptor]
        return bool(chunk)

    def reap_children(self) -> bytes | None:
        """Reap ended processes. If the script is one of them, kill all others, so that none holds its streams."""
        while True:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return None
            if pid == self.child:
                break
        kill_the_rest()
        return agent.encode_end(status, usage)


def main() -> None:
    """Serve one run."""
    agent.control = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(agent.control, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    agent.set_dumpable(0)
    agent.send_frame(b"R")
    size = int.from_bytes(agent.receive_bytes(0, 8), "big")
    job: ContainerJob = marshal.loads(agent.receive_bytes(0, size))  # noqa: S302 - from the host
    try:
        for folder, entries in job["folders"].items():
            unpack_files(folder, entries)
        job["folders"] = {}
        with AsNobody():
            os.mkdir("/work/out")  # noqa: PTH102
    except OSError as error:
        end_for("killed", f"the files of the run could not be written: {errno.errorcode.get(error.errno or 0)}")
    ended = ScriptRun(job).follow_script()
    agent.send_frame(b"X", ended)
    become_nobody()
    if os.path.islink("/work/out"):  # noqa: PTH114 - gVisor's kernel of 2022 ignores O_NOFOLLOW
        agent.send_frame(b"L", b"the output folder: a link")
    else:
        agent.Collector(job["artifacts"], job["artifacts_bytes"]).collect_files()
    agent.send_frame(b"E")
    os._exit(0)


if __name__ == "__main__":
    main()
