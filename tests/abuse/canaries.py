"""What the harness plants on the host for payloads to reach, and how it knows that they did."""

import ctypes
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

SHARED: Final = ("theirs", "cgroup.procs")
"""Files in the folder that a weakened sandbox may write to."""
_SEGMENT_BYTES: Final = 4096
_IPC_CREAT: Final = 0o1000


@dataclass(frozen=True, slots=True)
class Planted:
    """The canaries, all outside of any skill."""

    secret: str
    """Never given to a payload: in a file, and in a neighbour's environment."""
    folder: Path
    """Open to every user; `secret.txt`, `socket` and `shared` are in it."""
    listeners: "dict[str, socket.socket]"
    neighbour: "Neighbour"
    segment: int

    def told(self) -> dict[str, str | int]:
        """What a payload is told on its standard input."""
        return {
            "folder": str(self.folder),
            "secret": str(self.folder / "secret.txt"),
            "unix": str(self.folder / "socket"),
            "abstract": str(self.listeners["abstract"].getsockname()[1:], "ascii"),
            "tcp": self.listeners["tcp"].getsockname()[1],
            "udp": self.listeners["udp"].getsockname()[1],
            "pid": self.neighbour.pid,
            "segment": self.segment,
        }

    @property
    def shared(self) -> Path:
        """Writable to everybody; shown to weakened sandboxes only."""
        return self.folder / "shared"

    def heard(self) -> Iterator[str]:
        """Listeners that somebody came to since the last time."""
        for name, listener in self.listeners.items():
            with suppress(BlockingIOError):
                while True:
                    if listener.type is socket.SOCK_DGRAM:
                        listener.recv(100)
                    else:
                        listener.accept()[0].close()
                    yield name

    def clean(self) -> None:
        """The shared folder as it was."""
        shutil.rmtree(self.shared, ignore_errors=True)
        self.shared.mkdir()
        self.shared.chmod(0o777)
        for name in SHARED:
            self.shared.joinpath(name).touch()
            self.shared.joinpath(name).chmod(0o666)


class Neighbour:
    """A process of the host with a secret in its environment, of the user that the runs have."""

    def __init__(self, secret: str, uid: int | None) -> None:
        self._environment = {"SKILLBUS_CANARY": secret}
        self._uid = uid
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            ["/bin/sleep", "600"],
            env=self._environment,
            cwd="/",
            user=self._uid,
            group=self._uid,
            extra_groups=None if self._uid is None else [],
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """In the host's numbering."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it was left alone."""
        return self._process.poll() is None

    def revive(self) -> None:
        """Another one in its place, if it was not."""
        if not self.is_alive():
            self._process = self._start()

    def end(self) -> None:
        """It is not needed any more."""
        self._process.kill()
        self._process.wait(10)


@contextmanager
def planted(uid: int | None) -> Iterator[Planted]:
    """Every canary, for runs of the user `uid`, or of our own."""
    secret = f"skillbus-canary-{uuid4().hex}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skillbus-abuse-", dir="/var/tmp")))
        folder.chmod(0o755)
        (folder / "secret.txt").write_text(f"{secret}\n")
        (folder / "secret.txt").chmod(0o644)
        neighbour = Neighbour(secret, uid)
        stack.callback(neighbour.end)
        canaries = Planted(secret, folder, _listeners(stack, folder), neighbour, _segment(stack))
        canaries.clean()
        yield canaries


def _listeners(stack: ExitStack, folder: Path) -> dict[str, socket.socket]:
    name = f"\0skillbus-abuse-{uuid4().hex}"
    bound: dict[str, tuple[int, int, str | tuple[str, int]]] = {
        "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        "unix": (socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "socket")),
        "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, name),
        "datagrams": (socket.AF_UNIX, socket.SOCK_DGRAM, f"{name}-datagrams"),
    }
    listeners = {}
    for kind, (family, sort, address) in bound.items():
        listener = stack.enter_context(socket.socket(family, sort))
        listener.setblocking(False)
        listener.bind(address)
        if sort == socket.SOCK_STREAM:
            listener.listen()
        listeners[kind] = listener
    (folder / "socket").chmod(0o777)
    return listeners


def _segment(stack: ExitStack) -> int:
    """The key of a segment of shared memory that every user may attach to."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = int.from_bytes(os.urandom(3), "big") + 1
    identity = libc.shmget(key, _SEGMENT_BYTES, _IPC_CREAT | 0o666)
    assert identity >= 0, os.strerror(ctypes.get_errno())
    stack.callback(libc.shmctl, identity, 0, None)
    return key
