"""gVisor's runsc as a command line: a bundle of the Open Container Initiative in a folder, run around an agent.

A container shows this machine's /usr read-only, as bubblewrap's sandboxes do. gVisor's own kernel answers every system
call of a script.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from pydantic import JsonValue

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.installation import find_folders, find_links, find_runtimes
from skillbus.sandbox.adapters.bubblewrap.profile import DEPS, ENVIRONMENT, ETC
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.run.limits import MIB, Limits
from skillbus.sandbox.domain.run.spec import IsolationLevel

Json: TypeAlias = dict[str, JsonValue]

_PATH: Final = ENVIRONMENT["PATH"]
_VERSION_S: Final = 30.0
_SPARE_BYTES: Final = 64 * MIB
"""Memory for the agent, in addition to the script's."""
_LOADER_CACHE: Final = "/etc/ld.so.cache"
_CAPABILITY_SETS: Final = ("bounding", "effective", "permitted")
_CAPABILITIES: Final = ("CAP_KILL", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID")
"""Capabilities of the agent in gVisor's own kernel: to change the script's user, and to kill the script."""
_RLIMITS: Final = {"RLIMIT_SIGPENDING": 256, "RLIMIT_MSGQUEUE": 0}
"""Limits that a process in gVisor cannot set for itself. The values of `make_rlimits`; the agent sets the others."""
_NAMESPACES: Final = ("pid", "network", "ipc", "uts", "mount")
_BOOT: Final = (
    "import marshal, os, sys\n"
    "def take(size):\n"
    "    data = b''\n"
    "    while len(data) < size:\n"
    "        part = os.read(0, size - len(data))\n"
    "        if not part: os._exit(3)\n"
    "        data += part\n"
    "    return data\n"
    "shared, own = marshal.loads(take(int.from_bytes(take(8), 'big')))\n"
    "agent = sys.modules['agent'] = type(sys)('agent')\n"
    "exec(compile(shared, 'agent.py', 'exec'), agent.__dict__)\n"
    "exec(compile(own, 'gvisor_agent.py', 'exec'))\n"
)
"""Program that reads the agent from standard input and runs it."""
AGENT_ARGUMENTS: Final = ("-I", "-S", "-B", "-c", _BOOT)
"""Arguments of the Python that becomes the agent."""


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """Name, limits and folders of one container."""

    name: str
    limits: Limits
    given: Mapping[str, int]
    """Folders that the agent fills, and their sizes in bytes."""
    layer: Path | None = None
    """Packages of the run."""

    @property
    def tmpfs(self) -> Mapping[str, int]:
        """Writable folders and their sizes in bytes, without /dev/shm."""
        return {"/work": self.limits.work_bytes, "/tmp": self.limits.tmp_bytes, **self.given}  # noqa: S108

    @property
    def memory_bytes(self) -> int:
        """Memory limit of the container's cgroup: the sum of all limits. The agent enforces the script's own."""
        return self.limits.memory_bytes + sum(self.tmpfs.values()) + self.limits.shm_bytes + _SPARE_BYTES


@dataclass(frozen=True, slots=True)
class ShownFiles:
    """Files of this machine that a container sees."""

    python: Path
    folders: tuple[str, ...]
    links: Mapping[str, str]
    loader_cache: bool


@dataclass(frozen=True, slots=True)
class Runsc:
    """Command lines of runsc. Without root it is rootless and has no cgroup."""

    state: Path
    """Folder of this service, in which runsc keeps its state."""
    cgroups: bool = True
    """True to limit a container's memory and processors by a cgroup as well; the agent limits them in any case."""
    cpus: float | None = None
    program: str = "runsc"
    rootless: bool = field(default_factory=lambda: os.geteuid() != 0)
    environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": os.environ.get("PATH", _PATH)})
    """Environment of runsc itself."""

    def find_program(self) -> IsolationReport:
        """Check that runsc and a Python are installed. Blocking. Raises SandboxUnavailable if one does not work."""
        runtimes = find_runtimes()
        if Runtime.PYTHON not in runtimes:
            raise SandboxUnavailable("there is no Python under /usr for runsc to show: install python3")
        if shutil.which(self.program, path=self.environment.get("PATH")) is None:
            raise SandboxUnavailable(
                f"there is no program {self.program}: install gVisor's runsc, or set another SKILLBUS_SANDBOX_ENGINE"
            )
        command = (self.program, "--version")
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_VERSION_S, env=dict(self.environment)
            )
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxUnavailable(f"{self.program} cannot be used: {error}") from error
        if done.returncode != 0 or not done.stdout.startswith("runsc "):
            raise SandboxUnavailable(f"{self.program} is not gVisor's runsc: {(done.stdout or done.stderr).strip()}")
        memory = "a cgroup and a watchdog that looks" if self._has_cgroups() else "a watchdog that looks"
        notes = (f"memory is limited by {memory} every 20 ms", "skills with network access are refused by this engine")
        return IsolationReport(IsolationLevel.RUNSC, done.stdout.splitlines()[0], runtimes, notes)

    def prepare_container(self, plan: ContainerPlan, folder: Path) -> tuple[str, ...]:
        """Write a container's bundle and return the command that runs it, with the container's standard streams.

        `folder` is empty and belongs to this container; it must stay until the container has ended. Blocking.
        """
        shown = ShownFiles(find_runtimes()[Runtime.PYTHON], find_folders(), find_links(), Path(_LOADER_CACHE).is_file())
        make_root(folder / "rootfs", plan, shown)
        cgroup = f"/skillbus/{plan.name}" if self._has_cgroups() else None
        folder.joinpath("config.json").write_text(json.dumps(make_config(plan, shown, cgroup, self.cpus)))
        return *self._command(), "run", "--bundle", str(folder), plan.name

    def remove_command(self, name: str) -> tuple[str, ...]:
        """Return the command that kills and removes a container."""
        return *self._command(), "delete", "--force", name

    def list_command(self) -> tuple[str, ...]:
        """Return the command that prints the names of all containers, one a line."""
        return *self._command(), "list", "--quiet"

    def _has_cgroups(self) -> bool:
        return self.cgroups and not self.rootless

    def _command(self) -> tuple[str, ...]:
        flags = ["--network=none", f"--root={self.state}"]
        if self.rootless:
            flags.append("--rootless")
        if not self._has_cgroups():
            flags.append("--ignore-cgroups")
        return self.program, *flags


def make_config(plan: ContainerPlan, shown: ShownFiles, cgroup: str | None, cpus: float | None) -> Json:
    """Return the content of `config.json`. Source: the Open Container Initiative's runtime specification 1.0.2."""
    namespaces: list[JsonValue] = [{"type": kind} for kind in _NAMESPACES]
    linux: Json = {"namespaces": namespaces}
    if cgroup is not None:
        memory: Json = {"limit": plan.memory_bytes}
        cpu: Json = {} if cpus is None else {"period": 100_000, "quota": round(100_000 * cpus)}
        linux |= {"cgroupsPath": cgroup, "resources": {"memory": memory, "cpu": cpu}}
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": [str(shown.python), *AGENT_ARGUMENTS],
            "env": [f"PATH={_PATH}"],
            "cwd": "/",
            "capabilities": {kind: list[JsonValue](_CAPABILITIES) for kind in _CAPABILITY_SETS},
            "noNewPrivileges": True,
            "rlimits": [{"type": kind, "soft": value, "hard": value} for kind, value in _RLIMITS.items()],
            "terminal": False,
        },
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "sandbox",
        "mounts": list(_mounts(plan, shown)),
        "linux": linux,
    }


def _mounts(plan: ContainerPlan, shown: ShownFiles) -> Iterator[Json]:
    yield {"destination": "/proc", "type": "proc", "source": "proc"}
    yield {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}
    for path, size in {"/dev/shm": plan.limits.shm_bytes, **plan.tmpfs}.items():  # noqa: S108 - the container's own
        mode = "0755" if path in plan.given else "1777"  # the agent, another user than the script, owns given folders
        options: list[JsonValue] = ["nosuid", "nodev", f"mode={mode}", f"size={size}"]
        yield {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": options}
    read_only = {folder: folder for folder in shown.folders}
    if shown.loader_cache:
        read_only[_LOADER_CACHE] = _LOADER_CACHE
    if plan.layer is not None:
        read_only[DEPS] = str(plan.layer)
    bound: list[JsonValue] = ["rbind", "ro", "nosuid", "nodev"]
    for path, source in read_only.items():
        yield {"destination": path, "type": "bind", "source": source, "options": bound}


def make_root(root: Path, plan: ContainerPlan, shown: ShownFiles) -> None:
    """Fill the container's root folder with mount points, links and files of /etc. Every user can read it."""
    for path in ("/proc", "/dev", "/etc", *shown.folders, *plan.tmpfs, *((DEPS,) if plan.layer else ())):
        (root / path[1:]).mkdir(parents=True, exist_ok=True)
    if plan.layer is not None:  # Node looks for packages in the folders above a script
        (root / "node_modules").symlink_to(f"{DEPS[1:]}/node_modules")
    for path, target in shown.links.items():
        link = root / path[1:]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    for path, content in ETC.items():
        (root / path[1:]).write_bytes(content)
    if shown.loader_cache:
        (root / _LOADER_CACHE[1:]).touch()
