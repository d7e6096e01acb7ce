"""Docker, or whatever else has its command line."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skillbus.sandbox.adapters.engine import AGENT, PATHS, ContainerPlan, Found
from skillbus.sandbox.adapters.profile import NOBODY
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.run import Level

_ASK_S: Final = 30.0
_PIDS_MIN: Final = 16
"""The engine's own start needs some; below, the agent counts."""
_NAMES: Final = ("PATH", "HOME", "USER", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK")
_OURS: Final = "DOCKER_"


def client_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """What the client needs to find its engine, and nothing else of the service's."""
    return {name: value for name, value in environment.items() if name in _NAMES or name.startswith(_OURS)}


@dataclass(frozen=True, slots=True)
class DockerEngine:
    """`Engine`."""

    image: str
    """It must be there: it is never pulled. It has Python 3.8 or newer in /usr/bin or /usr/local/bin."""
    runtime: str | None = None
    """As `docker run --runtime` takes it: `runsc`, where gVisor is set up."""
    cpus: float | None = None
    program: str = "docker"
    environment: Mapping[str, str] = field(default_factory=lambda: client_environment(os.environ))
    level: Level = Level.DOCKER
    layers: bool = False

    def find(self) -> Found:
        """See `Engine.find`."""
        if shutil.which(self.program, path=self.environment.get("PATH")) is None:
            raise SandboxUnavailable(
                f"there is no program {self.program}: install Docker's client, or set another SKILLBUS_SANDBOX_ENGINE"
            )
        version = self._ask("version", "--format", "{{.Server.Version}}")
        self._ask("image", "inspect", "--format", "{{.Id}}", self.image)
        under = f", runtime {self.runtime}" if self.runtime else ""
        notes = (
            "packages that skills declare are not had for them with this engine: what scripts need is in the image",
            "skills with a network are refused with this engine",
        )
        return Found(f"{self.program} {version}, image {self.image}{under}", notes=notes)

    def run(self, plan: ContainerPlan, folder: Path) -> tuple[str, ...]:
        """See `Engine.run`."""
        return self.program, *_run(self, plan)

    def remove(self, name: str) -> tuple[str, ...]:
        """See `Engine.remove`."""
        return self.program, "rm", "--force", "--volumes", name

    def listing(self, owner: str) -> tuple[str, ...]:
        """See `Engine.listing`."""
        return self.program, "ps", "--all", "--filter", f"name=^{owner}", "--format", "{{.Names}}"

    def _ask(self, *words: str) -> str:
        command = (self.program, *words)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_ASK_S, env=dict(self.environment)
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxUnavailable(f"{' '.join(command)} does not answer: {error}") from error
        if done.returncode != 0:
            said = done.stderr.strip() or f"it ended with {done.returncode}"
            raise SandboxUnavailable(f"{' '.join(command)}: {said}")
        return done.stdout.strip()


def _run(engine: DockerEngine, plan: ContainerPlan) -> Iterator[str]:
    limits = plan.limits
    yield from ("run", "--rm", "--interactive", "--sig-proxy=false", "--pull", "never", "--name", plan.name)
    if engine.runtime is not None:
        yield from ("--runtime", engine.runtime)
    yield from ("--network", "none", "--hostname", "sandbox", "--ipc", "private", "--user", f"{NOBODY}:{NOBODY}")
    yield from ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    memory = str(plan.memory_bytes)
    yield from ("--pids-limit", str(max(limits.processes + 1, _PIDS_MIN)), "--memory", memory, "--memory-swap", memory)
    if engine.cpus is not None:
        yield from ("--cpus", f"{engine.cpus:g}")
    yield from ("--shm-size", str(limits.shm_bytes))
    for path, size in plan.tmpfs.items():
        yield from ("--tmpfs", f"{path}:rw,exec,nosuid,nodev,mode=1777,size={size}")
    # What a run prints is not written to the engine's disk, and nothing of the image's starts beside the agent.
    yield from ("--log-driver", "none", "--no-healthcheck", "--workdir", "/", "--env", f"PATH={PATHS}")
    yield from ("--entrypoint", "python3", engine.image, *AGENT)
