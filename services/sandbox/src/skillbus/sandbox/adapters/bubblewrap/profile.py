"""The sandbox as a command line, and how its agent enters it: pure functions of what to show and how to isolate.

Each flag answers a measurement. The root and /dev are remounted read-only and every tmpfs has a size, since bubblewrap
leaves them writable and half of the memory large. The user is changed before bubblewrap, since the process limit does
not hold for root. Process 1 is a program of our own, since the memory of bubblewrap's is open to the skill.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.installation import Installation
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import Level

SKILL: Final = "/skill"
INIT: Final = "/init"
NODE_BOOT: Final = "/node_boot.cjs"
INPUT: Final = "/in"
OUTPUT: Final = "/work/out"
DEPS: Final = "/deps"
RELAY: Final = "/relay.py"
EGRESS: Final = "/egress"
_PROXY: Final = "http://127.0.0.1:3128"
NOBODY: Final = 65534
ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/work",
    "TMPDIR": "/tmp",  # noqa: S108 - the sandbox's own
    "LANG": "C.UTF-8",
    "SKILLBUS_IN": INPUT,
    "SKILLBUS_OUT": OUTPUT,
}
NETWORK_ENVIRONMENT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _PROXY),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1"),
    # Node heeds the proxy of the environment since 22.21 and 24.5, where it is asked to.
    "NODE_USE_ENV_PROXY": "1",
}
"""Beside the other, of a run that may reach the network. The relay listens there."""
ETC: Final[Mapping[str, bytes]] = {
    "/etc/passwd": b"nobody:x:65534:65534:nobody:/work:/bin/sh\n",
    "/etc/group": b"nogroup:x:65534:\n",
    "/etc/hosts": b"127.0.0.1 localhost sandbox\n",
    "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
}


_CLONE: Final[Mapping[str, int]] = {
    "mnt": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}
"""By the names of /proc/self/ns; source: `include/uapi/linux/sched.h`."""
_NAMESPACES: Final = sum(flag for kind, flag in _CLONE.items() if Path("/proc/self/ns", kind).exists())
"""That bubblewrap makes: each that the kernel has."""


@dataclass(frozen=True, slots=True)
class Descriptors:
    """What the sandbox inherits, beside the standard three."""

    bwrap: int | None = None
    libraries: int | None = None
    """The wheel's program and the folder of its library, for a user who cannot walk to them."""
    info: int = -1
    """Where bubblewrap says which process is process 1."""
    seccomp: int = -1
    """The compiled filter."""
    files: Mapping[str, int] = field(default_factory=dict)
    """Read-only files of the sandbox: path to a descriptor with the content."""

    def inherited(self) -> tuple[int, ...]:
        """Every descriptor that is open."""
        known = (self.bwrap, self.libraries, self.info, self.seccomp)
        return (*(fd for fd in known if fd is not None and fd >= 0), *self.files.values())


class Warm(Enum):
    """What a sandbox that waits has started."""

    USUAL = auto()
    """An interpreter for Python, which starts bash as well."""
    NODE = auto()


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a command line follows from."""

    installation: Installation
    level: Level
    limits: Limits
    skill_root: Path
    given_root: Path
    """Folders of the host whose content may come after the start."""
    descriptors: Descriptors
    uid: int | None = None
    """The user to become before bubblewrap; absent when the service is not root."""
    mounts: str | None = None
    """The mount namespace to begin in, as root; absent for the service's own."""
    layer: Path | None = None
    """Packages of the run, shown as /deps; every user can walk to them."""
    egress: Path | None = None
    """The socket of the run's way out; absent when it has none."""
    warm: Warm | None = None
    """What it gets ready while it waits for its job; None when the job comes at once."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How an agent enters a sandbox that was started."""

    user: int | None
    """To become first; None when the service is not root."""
    namespaces: int
    """To join, as flags of setns(2)."""
    environment: Mapping[str, str]
    """Beside what every run has."""
    network: bool
    """Whether its filter leaves the network open."""
    warm: tuple[str, ...] | None
    """What it gets ready while it waits for its job: of Node the program and its first file, of others nothing. None
    when the job comes at once."""


def entry_of(plan: Plan) -> Entry:
    """How its agent enters the sandbox that `command_line` makes."""
    warm: tuple[str, ...] | None = None if plan.warm is None else ()
    if plan.warm is Warm.NODE:
        warm = (str(plan.installation.interpreter(Runtime.NODE)), NODE_BOOT)
    return Entry(
        user=plan.uid,
        namespaces=_NAMESPACES,
        environment={} if plan.egress is None else NETWORK_ENVIRONMENT,
        network=plan.egress is not None,
        warm=warm,
    )


def command_line(plan: Plan) -> tuple[str, ...]:
    """The whole command, from the change of the user to process 1."""
    return tuple(_command(plan))


def _command(plan: Plan) -> Iterator[str]:
    host, user = plan.installation, str(plan.uid)
    if plan.mounts is not None:
        # Bubblewrap forbids itself new privileges, first of all; `FewMounts` sees to it that its start brings none.
        yield from (str(host.nsenter), f"--mount={plan.mounts}", "--setuid", user, "--setgid", user, "--")
    elif plan.uid is not None:
        yield from (str(host.setpriv), "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs", "--")
    yield str(host.bwrap) if plan.descriptors.bwrap is None else f"/proc/self/fd/{plan.descriptors.bwrap}"
    yield from _namespaces(plan.level)
    yield from _root(host)
    yield from _writable(plan)
    yield from _shown(plan)
    yield from ("--remount-ro", "/", "--chdir", "/")
    yield from ("--seccomp", str(plan.descriptors.seccomp), "--info-fd", str(plan.descriptors.info))
    yield from ("--", INIT)


def _namespaces(level: Level) -> Iterator[str]:
    yield from ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
    yield "--unshare-cgroup-try"
    if level is Level.FULL:
        yield "--disable-userns"
    yield from ("--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox", "--new-session")
    yield from ("--die-with-parent", "--as-pid-1", "--cap-drop", "ALL", "--clearenv")


def _root(host: Installation) -> Iterator[str]:
    for folder in host.folders:
        yield from ("--ro-bind", folder, folder)
    if host.python_prefix is not None:
        yield from ("--ro-bind", str(host.python_prefix), str(host.python_prefix))
    for path, target in host.links.items():
        yield from ("--symlink", target, path)
    if host.loader_cache:
        yield from ("--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache")


def _writable(plan: Plan) -> Iterator[str]:
    limits = plan.limits
    if plan.level is Level.CONTAINER:
        yield from ("--dir", "/proc")
    else:
        # A namespace's own settings, as of its processes and queues, can be written by whoever made it.
        yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
    yield from ("--dev", "/dev", "--size", str(limits.shm_bytes), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")  # noqa: S108
    yield from ("--size", str(limits.tmp_bytes), "--tmpfs", "/tmp")  # noqa: S108
    yield from ("--size", str(limits.work_bytes), "--tmpfs", "/work", "--dir", OUTPUT)


def _shown(plan: Plan) -> Iterator[str]:
    yield from ("--ro-bind", str(plan.given_root), INPUT, "--ro-bind", str(plan.skill_root), SKILL)
    if plan.layer is not None:
        # Node looks for packages in the folders above a script, up to the root; for modules NODE_PATH does not count.
        yield from ("--ro-bind", str(plan.layer), DEPS, "--symlink", f"{DEPS[1:]}/node_modules", "/node_modules")
    if plan.egress is not None:
        yield from ("--ro-bind", str(plan.egress), EGRESS)
    for path, descriptor in plan.descriptors.files.items():
        # Whose program nobody may read, into it nobody may look: not even before it has said so itself.
        yield from ("--perms", "0111" if path == INIT else "0444", "--file", str(descriptor), path)
