"""What a case of the suite is: a payload, what must come of it, and how it is shown that it could come to more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.profile import SandboxPlan
from skillbus.sandbox.domain.run.limits import Limits

from .canaries import Planted

USUAL = Limits(wall_s=20)
"""A wall that no payload comes near on a slow machine, unless it means to."""

ANY_INODES = replace(USUAL, inodes=10**12)
"""For a sandbox that is shown a file system of the host, with all that is on it."""

_RUNTIMES = {
    ".py": Runtime.PYTHON,
    ".js": Runtime.NODE,
    ".mjs": Runtime.NODE,
    ".cjs": Runtime.NODE,
    ".sh": Runtime.BASH,
}

Step = Callable[[list[str], SandboxPlan, Planted], list[str]]
"""A change of the command line of a sandbox, or of what it is started with."""


def find_runtime(script: str) -> Runtime:
    """Return the runtime of a script by its suffix."""
    return _RUNTIMES[PurePosixPath(script).suffix]


@dataclass(frozen=True, slots=True)
class Weakening:
    """How the payload is let through, and what it must be seen to get then: else the case could not fail."""

    by: str
    """In words, for the table."""
    shows: tuple[str, ...]
    """All of these, among what gets through."""
    steps: tuple[Step, ...] = ()
    limits: Limits | None = None
    """In place of the case's."""
    argv: tuple[str, ...] | None = None
    absent: Callable[[], str | None] = lambda: None
    """Why it cannot be shown on this machine, if it cannot."""


@dataclass(frozen=True, slots=True)
class Abuse:
    """A payload of `payloads/`, bounded by its own arguments as well."""

    name: str
    payload: str
    must: str
    """What has to hold, in words, for the table."""
    weakening: Weakening
    argv: tuple[str, ...] = ()
    limits: Limits = USUAL
    ends_by: frozenset[RunStatus] = frozenset({RunStatus.OK})
    runs: int = 1
    """Runs of the same skill, one after another; the last one is judged as well as the first."""
    stdin: bytes | None = None
    """In place of the canaries."""
    ships: Mapping[str, str] = field(default_factory=dict)
    """Files that the skill brings, beside the payload."""
    artifacts: frozenset[str] | None = frozenset()
    """Names of those that may come back; None for any."""
    leaves_out: bool = False
    """Whether the run has to say that something was left out."""
    packages: bool = False
    """Whether the skill has packages, which it shares with others."""
    offline: bool = False
    """It is about what a run with a network does have: not for such a run."""
    silent: bool = False
    """The payload gives no verdict of its own: the harness does."""
    behind: str | None = None
    """A milder case of the same wall, which has to have held before this one is tried."""

    @property
    def kind(self) -> str:
        """The class, as the payloads' names have it."""
        return self.payload.partition("_")[0]
