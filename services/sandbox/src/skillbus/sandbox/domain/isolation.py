"""The port to whatever isolates runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.domain.run.spec import Level, RunControl, RunOutcome, RunSpec


@dataclass(frozen=True, slots=True)
class IsolationReport:
    """What a probe found."""

    level: Level
    engine: str
    """The program that isolates, with its version."""
    runtimes: Mapping[Runtime, Path] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What an operator should know: layers that are missing, and why a stronger level was refused."""


class Isolation(Protocol):
    """Runs scripts so that they reach nothing but what they were given."""

    async def probe(self) -> IsolationReport:
        """Try the levels from the strongest down, with the real sandbox, and remember the first that holds.

        While none does, it is tried again from time to time.

        Raises:
            SandboxUnavailable: when none does.
        """

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        """Run to the end or to a limit; nothing of the run goes on afterwards, or after `control.ends`.

        Safe to call concurrently.

        Cancelling the task ends the run without an outcome; `control.cancelled` ends it with one.

        Raises:
            SandboxUnavailable: no level holds on this machine; nothing was run.
            SandboxBroken: this sandbox did not start.
            RuntimeMissing, RunRejected: the spec asks for what cannot be had.
        """
