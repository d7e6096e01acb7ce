"""Ports of a run: its files, and its line to listeners and cancellers."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from skillbus.contracts.message import Content
from skillbus.contracts.sandbox import skill_runs as contract
from skillbus.contracts.sandbox.run_history import RunState
from skillbus.sandbox.domain.run.spec import CollectedArtifact, RunControl


class RunFiles(Protocol):
    """Input and output files of runs."""

    async def fetch_files(self, files: Mapping[str, Content], max_bytes: int) -> dict[str, bytes]:
        """Return the bytes of a request's files.

        Raises:
            RequestError: `not_found`, `payload_too_large` if they exceed `max_bytes` together, or `invalid_request` if
                a file does not match its digest.
        """
        ...

    async def store_output(self, run_id: str, name: str, data: bytes) -> Content:
        """Return output as a content, inline if it is small."""
        ...

    async def store_artifact(self, run_id: str, artifact: CollectedArtifact) -> contract.Artifact:
        """Store an artifact where callers can fetch it."""
        ...


class RunLine(Protocol):
    """Line between one run and its listeners."""

    @property
    def control(self) -> RunControl:
        """Handle that forwards the output, and cancels the run on request."""
        ...

    async def announce_start(self) -> None:
        """Tell listeners that the run was accepted."""
        ...

    async def announce_end(self, state: RunState) -> None:
        """Send listeners the remaining output and the final state."""
        ...


class RunLines(Protocol):
    """Lines of all runs."""

    def open(self, run_id: str, project: str, *, streamed: bool) -> AbstractAsyncContextManager[RunLine]:
        """Open the line of a run that starts here; with `streamed`, its output is sent to listeners.

        Raises:
            RunKnown: A run with that id is running here.
        """
        ...

    async def cancel(self, run_id: str, project: str) -> bool:
        """Cancel a run of that project on any replica. Return False if none runs it.

        Raises:
            RequestError: The bus is unavailable.
        """
        ...
