"""Command line of a sandbox, and how its agent enters it. Pure functions of what to show and how to isolate.

Reasons for the flags that are not obvious, all measured:

- The root folder and /dev are remounted read-only and every tmpfs has a size: bubblewrap leaves them writable, and as
  large as half of the memory.
- A service that is root has bubblewrap started by an unprivileged user: the process limit does not hold for root.
- Process 1 is a program of our own: a script can open the memory of bubblewrap's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.installation import Installation
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import IsolationLevel

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
    # Node reads the proxy variables since 22.21 and 24.5, if this is set.
    "NODE_USE_ENV_PROXY": "1",
}
"""Additional variables of a run with network access. The relay listens at the proxy's address."""
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
"""Flags by the names in /proc/self/ns. Source: `include/uapi/linux/sched.h`."""
_NAMESPACES: Final = sum(flag for kind, flag in _CLONE.items() if Path("/proc/self/ns", kind).exists())
"""Namespaces that bubblewrap makes: each kind that the kernel has."""


@dataclass(frozen=True, slots=True)
class InheritedDescriptors:
    """Descriptors that bubblewrap inherits, in addition to the standard three, by their numbers in it."""

    bwrap: int | None = None
    """The wheel's program, for a user who cannot enter the folders above it."""
    info: int = -1
    """Pipe to which bubblewrap writes the process id of process 1."""
    seccomp: int = -1
    """The compiled system call filter."""
    files: Mapping[str, int] = field(default_factory=dict)
    """Read-only files of the sandbox: path to a descriptor with the content."""


class Warm(Enum):
    """Process that a warm sandbox has started ahead of its run."""

    USUAL = auto()
    """A fork of the Python interpreter, which runs Python and bash scripts."""
    NODE = auto()


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    """Everything that determines the command line of one sandbox."""

    installation: Installation
    level: IsolationLevel
    limits: Limits
    skill_root: Path
    given_root: Path
    """Folders of the host. They may be filled after the sandbox has started."""
    descriptors: InheritedDescriptors = field(default_factory=InheritedDescriptors)
    layer: Path | None = None
    """Packages of the run, shown as /deps; every user can read them."""
    egress: Path | None = None
    """Socket of the run's egress proxy; None without network access."""
    warm: Warm | None = None
    """Process to start before the job arrives; None if the job comes at once."""


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """Description of how an agent enters a started sandbox."""

    namespaces: int
    """Namespaces to join, as flags of setns(2)."""
    environment: Mapping[str, str]
    """Variables in addition to `ENVIRONMENT`."""
    network: bool
    """True if the run's system call filter allows TCP."""
    warm: tuple[str, ...] | None
    """Command of the process to start before the job: Node and its boot file, or empty for Python and bash.

    None if the job comes at once.
    """


def build_entry(plan: SandboxPlan) -> AgentEntry:
    """Return how the agent enters the sandbox that `build_command` starts."""
    warm: tuple[str, ...] | None = None if plan.warm is None else ()
    if plan.warm is Warm.NODE:
        warm = (str(plan.installation.get_interpreter(Runtime.NODE)), NODE_BOOT)
    return AgentEntry(
        namespaces=_NAMESPACES,
        environment={} if plan.egress is None else NETWORK_ENVIRONMENT,
        network=plan.egress is not None,
        warm=warm,
    )


def build_command(plan: SandboxPlan) -> tuple[str, ...]:
    """Return the whole command line: bubblewrap, process 1."""
    return tuple(_command(plan))


def change_user(host: Installation, user: int | None) -> tuple[str, ...]:
    """Return the words before a command that run it as `user`; none if the service is not root."""
    if user is None:
        return ()
    return str(host.setpriv), "--reuid", str(user), "--regid", str(user), "--clear-groups", "--no-new-privs", "--"


def _command(plan: SandboxPlan) -> Iterator[str]:
    bwrap = plan.descriptors.bwrap
    yield str(plan.installation.bwrap) if bwrap is None else f"/proc/self/fd/{bwrap}"
    yield from ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
    yield "--unshare-cgroup-try"
    if plan.level is IsolationLevel.FULL:
        yield "--disable-userns"
    yield from ("--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox", "--new-session")
    yield from ("--die-with-parent", "--as-pid-1", "--cap-drop", "ALL", "--clearenv")
    yield from _root(plan.installation)
    yield from _writable(plan)
    yield from _shown(plan)
    yield from ("--remount-ro", "/", "--chdir", "/")
    yield from ("--seccomp", str(plan.descriptors.seccomp), "--info-fd", str(plan.descriptors.info))
    yield from ("--", INIT)


def _root(host: Installation) -> Iterator[str]:
    for folder in host.folders:
        yield from ("--ro-bind", folder, folder)
    if host.python_prefix is not None:
        yield from ("--ro-bind", str(host.python_prefix), str(host.python_prefix))
    for path, target in host.links.items():
        yield from ("--symlink", target, path)
    if host.loader_cache:
        yield from ("--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache")


def _writable(plan: SandboxPlan) -> Iterator[str]:
    limits = plan.limits
    if plan.level is IsolationLevel.CONTAINER:
        yield from ("--dir", "/proc")
    else:
        # The creator of a namespace can write its sysctls (processes, message queues): they are made read-only.
        yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
        for path in plan.installation.hidden:
            yield from ("--ro-bind", "/dev/null", path)  # a device, which bubblewrap lets nobody open there
    yield from ("--dev", "/dev", "--size", str(limits.shm_bytes), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")  # noqa: S108
    yield from ("--size", str(limits.tmp_bytes), "--tmpfs", "/tmp")  # noqa: S108
    yield from ("--size", str(limits.work_bytes), "--tmpfs", "/work", "--dir", OUTPUT)


def _shown(plan: SandboxPlan) -> Iterator[str]:
    yield from ("--ro-bind", str(plan.given_root), INPUT, "--ro-bind", str(plan.skill_root), SKILL)
    if plan.layer is not None:
        # Node looks for packages in every folder above a script, up to the root: ES modules ignore NODE_PATH.
        yield from ("--ro-bind", str(plan.layer), DEPS, "--symlink", f"{DEPS[1:]}/node_modules", "/node_modules")
    if plan.egress is not None:
        yield from ("--ro-bind", str(plan.egress), EGRESS)
    for path, descriptor in plan.descriptors.files.items():
        # The kernel lets nobody inspect a process with an unreadable program, from its first instruction on.
        yield from ("--perms", "0111" if path == INIT else "0444", "--file", str(descriptor), path)
