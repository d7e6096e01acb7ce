"""gVisor's runsc by itself: a bundle of the Open Container Initiative in a folder, and runsc's command line.

A container has this machine's /usr, read-only, as a sandbox of bubblewrap has. Every system call of a script is
answered by gVisor's own kernel.
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
from skillbus.sandbox.adapters.bubblewrap.profile import DEPS, ETC
from skillbus.sandbox.adapters.gvisor.engine import AGENT, PATHS, ContainerPlan, Found
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.run.spec import Level

Json: TypeAlias = dict[str, JsonValue]

_ASK_S: Final = 30.0
_LOADER_CACHE: Final = "/etc/ld.so.cache"
_HELD: Final = ("bounding", "effective", "permitted")
_CAPABILITIES: Final = ("CAP_KILL", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID")
"""Of the agent, in gVisor's own kernel: by them it becomes another user, and ends what that started."""
_RLIMITS: Final = {"RLIMIT_SIGPENDING": 256, "RLIMIT_MSGQUEUE": 0}
"""As `rlimits` has them: in gVisor a process cannot set these two for itself. The agent sets the others."""
_NAMESPACES: Final = ("pid", "network", "ipc", "uts", "mount")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a container sees of this machine."""

    python: Path
    folders: tuple[str, ...]
    links: Mapping[str, str]
    loader_cache: bool


@dataclass(frozen=True, slots=True)
class RunscEngine:
    """`Engine`. Without root it is rootless, and has no cgroup."""

    state: Path
    """A folder of this service's own, where runsc keeps what runs."""
    cgroups: bool = True
    """Whether the kernel holds a container's memory and processors; the agent does in any case."""
    cpus: float | None = None
    program: str = "runsc"
    rootless: bool = field(default_factory=lambda: os.geteuid() != 0)
    environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": os.environ.get("PATH", PATHS)})
    level: Level = Level.RUNSC

    def find(self) -> Found:
        """See `Engine.find`."""
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
                command, capture_output=True, text=True, check=False, timeout=_ASK_S, env=dict(self.environment)
            )
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxUnavailable(f"{self.program} cannot be used: {error}") from error
        if done.returncode != 0 or not done.stdout.startswith("runsc "):
            raise SandboxUnavailable(f"{self.program} is not gVisor's runsc: {(done.stdout or done.stderr).strip()}")
        held = "memory is held by a cgroup and a watchdog" if self._has_cgroups() else "memory is held by a watchdog"
        notes = (f"{held} that looks every 20 ms", "skills with a network are refused with this engine")
        return Found(done.stdout.splitlines()[0], runtimes, notes)

    def run(self, plan: ContainerPlan, folder: Path) -> tuple[str, ...]:
        """See `Engine.run`."""
        shown = Shown(find_runtimes()[Runtime.PYTHON], find_folders(), find_links(), Path(_LOADER_CACHE).is_file())
        make_root(folder / "rootfs", plan, shown)
        cgroup = f"/skillbus/{plan.name}" if self._has_cgroups() else None
        folder.joinpath("config.json").write_text(json.dumps(oci_config(plan, shown, cgroup, self.cpus)))
        return *self._command(), "run", "--bundle", str(folder), plan.name

    def remove(self, name: str) -> tuple[str, ...]:
        """See `Engine.remove`."""
        return *self._command(), "delete", "--force", name

    def listing(self, owner: str) -> tuple[str, ...]:
        """See `Engine.listing`."""
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


def oci_config(plan: ContainerPlan, shown: Shown, cgroup: str | None, cpus: float | None) -> Json:
    """`config.json`. Source: the Open Container Initiative's runtime specification 1.0.2."""
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
            "args": [str(shown.python), *AGENT],
            "env": [f"PATH={PATHS}"],
            "cwd": "/",
            "capabilities": {kind: list[JsonValue](_CAPABILITIES) for kind in _HELD},
            "noNewPrivileges": True,
            "rlimits": [{"type": kind, "soft": value, "hard": value} for kind, value in _RLIMITS.items()],
            "terminal": False,
        },
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "sandbox",
        "mounts": list(_mounts(plan, shown)),
        "linux": linux,
    }


def _mounts(plan: ContainerPlan, shown: Shown) -> Iterator[Json]:
    yield {"destination": "/proc", "type": "proc", "source": "proc"}
    yield {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}
    for path, size in {"/dev/shm": plan.limits.shm_bytes, **plan.tmpfs}.items():  # noqa: S108 - the container's own
        mode = "0755" if path in plan.given else "1777"  # what is given is the agent's, who is another user
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


def make_root(root: Path, plan: ContainerPlan, shown: Shown) -> None:
    """What is in the container's root folder beside its mounts; everybody can read it."""
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
