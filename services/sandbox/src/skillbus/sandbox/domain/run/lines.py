"""The port between a run that goes on and those who listen to it or want it ended."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from skillbus.contracts.sandbox.run_history import RunState
from skillbus.sandbox.domain.run.spec import RunControl


class RunLine(Protocol):
    """What connects one run to the outside."""

    @property
    def control(self) -> RunControl:
        """Follows the run, and ends it when somebody wants that."""
        ...

    async def begun(self) -> None:
        """Tell those who listen that the run was accepted."""
        ...

    async def ended(self, state: RunState) -> None:
        """Tell them the rest of what it printed, and how it ended."""
        ...


class RunLines(Protocol):
    """The lines of all runs."""

    def open(self, run_id: str, project: str, *, told: bool) -> AbstractAsyncContextManager[RunLine]:
        """A line for a run that begins here; `told` if what it prints is told to those who listen.

        Raises:
            RunKnown: A run of that id goes on here.
        """
        ...

    async def cancel(self, run_id: str, project: str) -> bool:
        """End a run of that project, wherever it goes on; False when it goes on nowhere.

        Raises:
            RequestError: The bus is away.
        """
        ...
