"""Ways to take a wall down on purpose: changes of the command line, and of the agent that enters."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from skillbus.sandbox.adapters.bubblewrap.installation import find_installation
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.adapters.bubblewrap.profile import INIT, AgentEntry, SandboxPlan, build_command, build_entry
from skillbus.sandbox.adapters.bubblewrap.starter import SandboxProfile
from skillbus.sandbox.adapters.inside import read_agent_sources
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.run.spec import IsolationLevel

from .canaries import Planted
from .model import Step

_VALUES: Final = {"--seccomp": 1, "--remount-ro": 1, "--proc": 1}
"""Flags with values; all others that are taken away have none."""
_NAMESPACES: Final = {"--unshare-pid": 0x20000000, "--unshare-net": 0x40000000, "--unshare-ipc": 0x08000000}
"""Flags that may be taken away, and what the agent then does not join; source: `include/uapi/linux/sched.h`."""


@dataclass(frozen=True, slots=True)
class AgentStep:
    """A change of the agent's source."""

    old: str
    new: str

    def __call__(self, argv: list[str], plan: SandboxPlan, planted: Planted) -> list[str]:
        """The command line stays as it is."""
        return argv

    def change(self, sources: Mapping[str, str]) -> dict[str, str]:
        """Of all modules, those that have the words; one does at least."""
        assert any(self.old in source for source in sources.values()), f"the agent has no {self.old!r} any more"
        return {name: source.replace(self.old, self.new) for name, source in sources.items()}


class Weakened(BubblewrapIsolation):
    """Runs in a sandbox that some walls are missing of, which no probe would let pass."""

    def __init__(self, level: IsolationLevel, steps: Sequence[Step], planted: Planted, user: int) -> None:
        def changed(plan: SandboxPlan) -> list[str]:
            argv = list(build_command(plan))
            for step in steps:
                argv = step(argv, plan, planted)
            return argv

        def entered(plan: SandboxPlan) -> AgentEntry:
            """As the sandbox is after the steps: what is not made is not entered, and what is told the agent tells."""
            argv, entry = changed(plan), build_entry(plan)
            absent = sum(flag for name, flag in _NAMESPACES.items() if name not in argv)
            told = {argv[at + 1]: argv[at + 2] for at, word in enumerate(argv) if word == "--setenv"}
            return replace(entry, namespaces=entry.namespaces & ~absent, environment={**entry.environment, **told})

        sources = read_agent_sources()
        for step in steps:
            if isinstance(step, AgentStep):
                sources = step.change(sources)
        super().__init__(profile=SandboxProfile(changed, entered, sources), user=user)
        self._level = level

    async def probe(self) -> IsolationReport:
        """Whatever the walls are."""
        return IsolationReport(self._level, "weakened", find_installation().runtimes)


def without(*flags: str) -> Step:
    """Each of these flags wherever it is, and its value; one that a level has not need not be there."""

    def step(argv: list[str], plan: SandboxPlan, planted: Planted) -> list[str]:
        for flag in flags:
            while flag in argv:
                at = argv.index(flag)
                del argv[at : at + 1 + _VALUES.get(flag, 0)]
        return argv

    return step


def added(*flags: str) -> Step:
    """These too, before the root becomes read-only; `{folder}`, `{shared}` and `{secret}` are the canaries'."""

    def step(argv: list[str], plan: SandboxPlan, planted: Planted) -> list[str]:
        at = len(argv) - 1 - argv[::-1].index("--remount-ro")
        names = {"folder": planted.folder, "shared": planted.shared, "secret": planted.secret}
        return [*argv[:at], *(flag.format(**names) for flag in flags), *argv[at:]]

    return step


def agent(old: str, new: str) -> AgentStep:
    """Other words in the source of the agent."""
    return AgentStep(old, new)


def writable(folder: str) -> Step:
    """A folder of the host that is to be read-only as it is on the host."""

    def step(argv: list[str], plan: SandboxPlan, planted: Planted) -> list[str]:
        at = argv.index(folder) - 2
        assert argv[at] == "--ro-bind"
        return [*argv[:at], "--bind", *argv[at + 1 :]]

    return step


def host_processes_shown(argv: list[str], plan: SandboxPlan, planted: Planted) -> list[str]:
    """The host's /proc."""
    at = next(at for at, (flag, value) in enumerate(pairwise(argv)) if flag in {"--proc", "--dir"} and value == "/proc")
    return [*argv[:at], "--bind", "/proc", "/proc", *argv[at + 2 :]]


def proc_unmasked(argv: list[str], plan: SandboxPlan, planted: Planted) -> list[str]:
    """Every file of /proc as the kernel shows it."""
    while "/dev/null" in argv:
        at = argv.index("/dev/null")
        assert argv[at - 1] == "--ro-bind"
        del argv[at - 1 : at + 2]
    return argv


def process_1_open(argv: list[str], plan: SandboxPlan, planted: Planted) -> list[str]:
    """A process 1 that does not keep its memory to itself, and whose program can be read."""
    return _process_1(argv, "/bin/cat", "/etc/hosts", "-")


def process_1_heeds(argv: list[str], plan: SandboxPlan, planted: Planted) -> list[str]:
    """A process 1 that handles a signal: those that it does not handle the kernel keeps from it."""
    return _process_1(argv, "/bin/sh", "-c", "trap 'exit 1' TERM; echo; read _")


def _process_1(argv: list[str], *command: str) -> list[str]:
    assert argv[-2:] == ["--", INIT]
    return [*argv[:-1], *command]


UNFILTERED: Final = (without("--seccomp"), agent("agent.close_kernel(instructions)", "pass"))
PROCESSES_SHARED: Final = (host_processes_shown, without("--unshare-pid", "--as-pid-1"))
"""The host's process namespace: with process 1 nobody else ends."""
FOLDER_LEFT_OPEN: Final = (
    agent("    os.setsid()\n    if not", '    os.dup2(os.open("/", os.O_RDONLY), 9)\n    os.setsid()\n    if not'),
    agent('agent.close_from(CHANNEL + job["channel"])', "pass"),
)
"""Descriptor 9 is the host's root folder, and nobody closes it."""
SHOWN: Final = added("--ro-bind", "{folder}", "{folder}")
"""The folder of the canaries, under its own name."""
SHARED_TMP: Final = added("--bind", "{shared}", "/tmp")
"""A folder of the host that can be written, where a private one was."""


def needs_root() -> str | None:
    """Why not, when we are not root: what it leaves could not be told from what is ours."""
    return None if os.geteuid() == 0 else "only root can tell and end what this weakening leaves"
