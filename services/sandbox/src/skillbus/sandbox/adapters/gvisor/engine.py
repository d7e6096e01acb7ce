"""What a container engine is to the sandbox: a program that starts a container around an agent, and removes it.

Nothing of the host is shared with a container but its standard streams and, where the engine can, a layer of packages:
the engine may be on another machine. So an engine is no more than command lines.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.profile import ENVIRONMENT
from skillbus.sandbox.domain.run.limits import MIB, Limits
from skillbus.sandbox.domain.run.spec import Level

PATHS: Final = ENVIRONMENT["PATH"]
PREFIX: Final = "skillbus-run-"
SPARE_BYTES: Final = 64 * MIB
"""Of memory, for the agent beside the script."""
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
    "exec(compile(own, 'engine_agent.py', 'exec'))\n"
)
"""The agent comes by standard input: an image needs no more than a Python."""
AGENT: Final = ("-I", "-S", "-B", "-c", _BOOT)
"""What that Python is started with."""


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """One container."""

    name: str
    limits: Limits
    given: Mapping[str, int]
    """Folders that the agent fills, and how many bytes they may have."""
    layer: Path | None = None
    """Packages of the run, for an engine that shares the host's files."""

    @property
    def tmpfs(self) -> Mapping[str, int]:
        """What can be written in it, and how many bytes; /dev/shm is apart."""
        return {"/work": self.limits.work_bytes, "/tmp": self.limits.tmp_bytes, **self.given}  # noqa: S108

    @property
    def memory_bytes(self) -> int:
        """Where the kernel ends it, whatever the agent sees: all that the limits add up to."""
        return self.limits.memory_bytes + sum(self.tmpfs.values()) + self.limits.shm_bytes + SPARE_BYTES


@dataclass(frozen=True, slots=True)
class Found:
    """What an engine says of itself."""

    version: str
    runtimes: Mapping[Runtime, Path] = field(default_factory=dict)
    """Interpreters, if the engine shows the host's; those of an image are asked for in it."""
    notes: tuple[str, ...] = ()


class Engine(Protocol):
    """Command lines of one engine."""

    @property
    def level(self) -> Level:
        """What runs on it are told to be isolated by."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """Of the engine's own program."""
        ...

    def find(self) -> Found:
        """Look whether it is there. Blocking.

        Raises:
            SandboxUnavailable: It is not, and why.
        """

    def run(self, plan: ContainerPlan, folder: Path) -> tuple[str, ...]:
        """The command that starts a container, is its standard streams, and ends with it; nothing is left then.

        `folder` is empty, the container's own on this machine, and is there as long as that. Blocking.
        """

    def remove(self, name: str) -> tuple[str, ...]:
        """The command that ends a container by force, and forgets it."""

    def listing(self, owner: str) -> tuple[str, ...]:
        """The command that prints the names of the containers that begin with `owner`, one a line."""
