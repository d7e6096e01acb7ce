"""Port to the mechanism that enforces the limits shared by all processes of a sandbox."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.domain.run.limits import Limits


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
        """Enforce `limits`.

        Raises:
            SandboxBroken: The limits cannot be enforced. The sandbox must not get a job.
        """

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
