"""Ways to take a wall down on purpose: changes of the command line, and of the agent that it starts."""

import os
from collections.abc import Sequence
from importlib.resources import files
from itertools import pairwise
from typing import Final

from skillbus.sandbox.adapters.bubblewrap import BubblewrapIsolation
from skillbus.sandbox.adapters.installation import find_installation
from skillbus.sandbox.adapters.profile import AGENT, Plan, command_line
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.run import Level

from .canaries import Planted
from .model import Step

_AGENT_SOURCE: Final = files("skillbus.sandbox.adapters").joinpath("agent.py")
_VALUES: Final = {"--seccomp": 1, "--remount-ro": 1, "--proc": 1}
"""Flags with values; all others that are taken away have none."""


class Weakened(BubblewrapIsolation):
    """Runs in a sandbox that some walls are missing of, which no probe would let pass."""

    def __init__(self, level: Level, steps: Sequence[Step], planted: Planted, uids: range) -> None:
        def profile(plan: Plan) -> tuple[str, ...]:
            argv = list(command_line(plan))
            for step in steps:
                argv = step(argv, plan, planted)
            return tuple(argv)

        super().__init__(profile=profile, uids=uids)
        self._level = level

    async def probe(self) -> IsolationReport:
        """Whatever the walls are."""
        return IsolationReport(self._level, "weakened", find_installation().runtimes)


def without(*flags: str) -> Step:
    """Each of these flags wherever it is, and its value; one that a level has not need not be there."""

    def step(argv: list[str], plan: Plan, planted: Planted) -> list[str]:
        for flag in flags:
            while flag in argv:
                at = argv.index(flag)
                del argv[at : at + 1 + _VALUES.get(flag, 0)]
        return argv

    return step


def added(*flags: str) -> Step:
    """These too, before the root becomes read-only; `{folder}`, `{shared}` and `{secret}` are the canaries'."""

    def step(argv: list[str], plan: Plan, planted: Planted) -> list[str]:
        at = len(argv) - 1 - argv[::-1].index("--remount-ro")
        names = {"folder": planted.folder, "shared": planted.shared, "secret": planted.secret}
        return [*argv[:at], *(flag.format(**names) for flag in flags), *argv[at:]]

    return step


def agent(old: str, new: str) -> Step:
    """Process 1 with other words in its source, which is put in place of the compiled one and run as such."""

    def step(argv: list[str], plan: Plan, planted: Planted) -> list[str]:
        descriptor = plan.descriptors.files[AGENT]
        given = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        source = (_AGENT_SOURCE.read_bytes() if b"\0" in given else given).decode()
        assert old in source, f"the agent has no {old!r} any more: weaken it in another way"
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, source.replace(old, new).encode(), 0)
        return _from_source(argv)

    return step


def _from_source(argv: list[str]) -> list[str]:
    at = len(argv) - 1 - argv[::-1].index(AGENT)
    if argv[at - 1] != "-B":
        return argv
    return [*argv[:at], "-c", f"exec(compile(open({AGENT!r}).read(), 'agent', 'exec'))", *argv[at + 1 :]]


def writable(folder: str) -> Step:
    """A folder of the host that is to be read-only as it is on the host."""

    def step(argv: list[str], plan: Plan, planted: Planted) -> list[str]:
        at = argv.index(folder) - 2
        assert argv[at] == "--ro-bind"
        return [*argv[:at], "--bind", *argv[at + 1 :]]

    return step


def folder_left_open(argv: list[str], plan: Plan, planted: Planted) -> list[str]:
    """Descriptor 9 is the host's root folder, and nobody closes it."""
    argv = agent("os.closerange(", "None, (")(argv, plan, planted)
    return ["/bin/sh", "-c", 'exec 9</; exec "$@"', "sh", *argv]


def host_processes_shown(argv: list[str], plan: Plan, planted: Planted) -> list[str]:
    """The host's /proc."""
    at = next(at for at, (flag, value) in enumerate(pairwise(argv)) if flag in {"--proc", "--dir"} and value == "/proc")
    return [*argv[:at], "--bind", "/proc", "/proc", *argv[at + 2 :]]


def processes_shared(argv: list[str], plan: Plan, planted: Planted) -> list[str]:
    """The host's process namespace, and an agent that does not end everyone at the end."""
    argv = agent("os.kill(-1, _signal.SIGKILL)", "pass")(argv, plan, planted)
    return without("--unshare-pid", "--as-pid-1")(host_processes_shown(argv, plan, planted), plan, planted)


UNFILTERED: Final = without("--seccomp")
SHOWN: Final = added("--ro-bind", "{folder}", "{folder}")
"""The folder of the canaries, under its own name."""
SHARED_TMP: Final = added("--bind", "{shared}", "/tmp")
"""A folder of the host that can be written, where a private one was."""


def needs_root() -> str | None:
    """Why not, when we are not root: what it leaves could not be told from what is ours."""
    return None if os.geteuid() == 0 else "only root can tell and end what this weakening leaves"
