"""A process of this machine, with nothing around it but limits on itself."""

import asyncio
import os
import resource
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final
from uuid import uuid4

from skillbus.sandbox.adapters.conversation import Ended

_MARK: Final = "SKILLBUS_RUN"
"""In the environment of a run's processes, which tells them from others when they have left their group."""
_SWEEPS: Final = 100
_LINGER_S: Final = 1.0
_OPTIONS: Final[Mapping[int, str]] = {
    resource.RLIMIT_AS: "--as",
    resource.RLIMIT_CORE: "--core",
    resource.RLIMIT_CPU: "--cpu",
    resource.RLIMIT_DATA: "--data",
    resource.RLIMIT_FSIZE: "--fsize",
    resource.RLIMIT_MEMLOCK: "--memlock",
    resource.RLIMIT_MSGQUEUE: "--msgqueue",
    resource.RLIMIT_NOFILE: "--nofile",
    resource.RLIMIT_SIGPENDING: "--sigpending",
}
"""Of prlimit(1). Processes are not among them: those of the user's whole machine would count."""


@dataclass(frozen=True, slots=True)
class BareStart:
    """What is started."""

    prlimit: Path
    rlimits: Mapping[int, tuple[int, int]]
    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    stdin: Path


class BareProcess:
    """A started process: followed as a sandbox is, and ended as well as its user can."""

    def __init__(self, start: BareStart) -> None:
        """Starts it.

        Raises:
            OSError: It cannot be started.
        """
        self._mark = uuid4().hex
        limits = [f"{_OPTIONS[kind]}={soft}:{hard}" for kind, (soft, hard) in start.rlimits.items() if kind in _OPTIONS]
        with start.stdin.open("rb") as stdin, _pipe() as stdout, _pipe() as stderr:
            self._process = subprocess.Popen(
                [start.prlimit, *limits, "--", *start.argv],
                stdin=stdin,
                stdout=stdout[1],
                stderr=stderr[1],
                cwd=start.folder,
                env={**start.environment, _MARK: self._mark},
                start_new_session=True,
            )
            # Of the streams' own: uvloop closes what it is given at a time of its own.
            self._ours = FileIO(os.dup(stdout[0])), FileIO(os.dup(stderr[0]))
        self.pid = self._process.pid
        self._own = ExitStack()
        self._pipes = ExitStack()
        self._ended = os.pidfd_open(self.pid)
        self._own.callback(os.close, self._ended)

    async def connect(self) -> None:
        """Open the streams; to be awaited once, right after the start."""
        self.stdout, self.stderr = await self._open(self._ours[0]), await self._open(self._ours[1])

    async def wait(self) -> Ended:
        """Until it has ended; whatever it started is ended then too, so that nobody holds its streams."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._ended, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._ended)
        told = self._reap()
        self.kill()
        lingering = loop.call_later(_LINGER_S, self._pipes.close)  # somebody hid, and holds them
        self._own.callback(lingering.cancel)
        return told

    def _reap(self) -> Ended:
        _, status, usage = os.wait4(self.pid, 0)
        code = self._process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(None if code < 0 else code, max(-code, 0), 1000 * (usage.ru_utime + usage.ru_stime))

    def kill(self) -> None:
        """See `Program.kill`. Who left the group is found by the environment, unless that was thrown away as well."""
        with suppress(ProcessLookupError):
            if self._process.returncode is None:
                os.killpg(self.pid, signal.SIGKILL)
        for _ in range(_SWEEPS):
            found = list(_marked(f"{_MARK}={self._mark}".encode()))
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not found:
                return

    def end(self) -> None:
        """Kill it, and give every descriptor back. Safe to call again."""
        self.kill()
        if self._process.returncode is None:
            self._process.wait()
        self._pipes.close()
        self._own.close()

    async def _open(self, pipe: FileIO) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._pipes.callback(transport.close)
        return reader


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def _marked(mark: bytes) -> Iterator[int]:
    """Processes with `mark` in their environment; a dead one has none."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)
