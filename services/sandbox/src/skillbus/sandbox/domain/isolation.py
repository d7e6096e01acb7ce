"""Ports to the isolation of runs, and to the mechanism that limits all processes of a sandbox together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import IsolationLevel, RunControl, RunOutcome, RunSpec


class ExceededLimit(NamedTuple):
    """A limit that a run has passed."""

    status: RunStatus
    detail: str


@dataclass(frozen=True, slots=True)
class SandboxUsage:
    """Resources that the processes of a sandbox used together."""

    peak_bytes: int | None = None
    """Largest amount of memory at one time; None if the run ended before the first measurement."""
    excess: ExceededLimit | None = None
    """Limit for which the kernel killed the processes by itself."""


class Meter(Protocol):
    """Meter of one sandbox. Order of calls: `enter` after its start, `limit` before its job, `get_usage`, `leave`."""

    async def enter(self, roots: Sequence[int]) -> None:
        """Count these processes, in the host's numbering, and everything that they start from now on.

        The first one must live as long as the processes that any of them starts.

        Raises:
            SandboxBroken: They cannot be counted. The sandbox must not get a job.
        """

    def limit(self, limits: Limits) -> None:
        """Enforce `limits`. Raises SandboxBroken if they cannot be enforced: the sandbox must not get a job."""

    async def watch_limits(self) -> ExceededLimit:
        """Wait until a limit is passed that the kernel does not enforce by itself."""

    def get_usage(self) -> SandboxUsage:
        """Return the usage of a sandbox that has ended, before the meter is left."""

    async def leave(self) -> None:
        """Kill processes that are still counted, and release the meter. Safe to call again."""


class Metering(Protocol):
    """Factory of meters."""

    def prepare(self) -> str:
        """Choose the mechanism and return a description for the operator. Safe to call again.

        Raises:
            SandboxUnavailable: The mechanism that the operator asked for is not usable.
        """

    def create_meter(self) -> Meter:
        """Create a meter for one sandbox, after `prepare`."""


@dataclass(frozen=True, slots=True)
class IsolationReport:
    """Result of a probe."""

    level: IsolationLevel
    engine: str
    """Isolating program and its version."""
    runtimes: Mapping[Runtime, Path] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Notes for the operator: missing layers, and why a stronger level was refused."""


class Isolation(Protocol):
    """Runs scripts that can reach nothing but what they are given."""

    async def probe(self) -> IsolationReport:
        """Try the levels from the strongest down with a real sandbox, and remember the first that works.

        While none works, later calls try again after a pause.

        Raises:
            SandboxUnavailable: No level works.
        """

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        """Run a script to its end or to a limit. No process of the run is left afterwards, or after `control.ends`.

        Safe to call concurrently. Cancelling the task ends the run without an outcome; `control.cancelled` ends it with
        one.

        Raises:
            SandboxUnavailable: No level works on this machine; nothing was run.
            SandboxBroken: This sandbox did not start.
            RuntimeMissing, RunRejected: The spec asks for something that is not available.
        """
