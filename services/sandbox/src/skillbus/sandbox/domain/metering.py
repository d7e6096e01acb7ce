"""The port to whatever holds the processes of one sandbox to the limits that they share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.domain.run.limits import Limits


class Excess(NamedTuple):
    """A limit that was passed."""

    status: RunStatus
    detail: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What the processes of a sandbox used together."""

    peak_bytes: int | None = None
    """Of memory at once; absent when it ended before anybody could look."""
    excess: Excess | None = None
    """What the kernel ended them for by itself."""


class Meter(Protocol):
    """Of one sandbox: entered when it has started, limited before its job, asked when it has ended, then left."""

    async def enter(self, roots: Sequence[int]) -> None:
        """Count these processes, in the host's numbering, and all that they start from now on.

        The first of them is there as long as any other that they start.

        Raises:
            SandboxBroken: It cannot be counted; it must not be given a job.
        """

    def limit(self, limits: Limits) -> None:
        """Hold them to `limits`.

        Raises:
            SandboxBroken: They cannot be held; it must not be given a job.
        """

    async def watch(self) -> Excess:
        """Wait until a limit is passed that the kernel does not hold by itself."""

    def usage(self) -> Usage:
        """Of a sandbox that has ended; before the meter is left."""

    async def leave(self) -> None:
        """Nothing that was counted is left afterwards, nor anything of the meter. Safe to call again."""


class Metering(Protocol):
    """Makes meters."""

    def prepare(self) -> str:
        """Find out what holds here; returns it in words, for an operator. Safe to call again.

        Raises:
            SandboxUnavailable: What the operator asked for cannot be had.
        """

    def meter(self) -> Meter:
        """A meter for one sandbox; after `prepare`."""
