"""Port to the isolation of runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.domain.run.spec import IsolationLevel, RunControl, RunOutcome, RunSpec


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
