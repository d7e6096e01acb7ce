"""Ports of a run: its files, and its link to listeners and cancellers."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from skillbus.contracts.message import Content
from skillbus.contracts.sandbox import skill_runs as contract
from skillbus.contracts.sandbox.run_history import RunState
from skillbus.sandbox.domain.run.spec import Artifact, RunControl


class RunFiles(Protocol):
    """Files that go into runs and come out of them."""

    async def fetch_files(self, files: Mapping[str, Content], max_bytes: int) -> dict[str, bytes]:
        """Return the content of a request's files.

        Raises:
            RequestError: `not_found`; `payload_too_large` if they are more than `max_bytes` together;
                `invalid_request` if one does not match its digest.
        """
        ...

    async def keep_output(self, run_id: str, name: str, data: bytes) -> Content:
        """Return output as a content: inline if it is small, else stored."""
        ...

    async def keep_artifact(self, run_id: str, artifact: Artifact) -> contract.Artifact:
        """Store an artifact where callers can fetch it."""
        ...


class RunLine(Protocol):
    """Link of one run to those who listen to it or cancel it."""

    @property
    def control(self) -> RunControl:
        """Control of the run: receives its output, and is set when somebody cancels it."""
        ...

    async def report_begun(self) -> None:
        """Tell listeners that the run was accepted."""
        ...

    async def report_ended(self, state: RunState) -> None:
        """Send listeners the rest of the output and how the run ended."""
        ...


class RunLines(Protocol):
    """Links of all runs."""

    def open_line(self, run_id: str, project: str, *, has_feed: bool) -> AbstractAsyncContextManager[RunLine]:
        """Open the link of a run that begins here. `has_feed` says whether its output is published.

        Raises:
            RunKnown: A run with that id is going on here.
        """
        ...

    async def cancel_run(self, run_id: str, project: str) -> bool:
        """Cancel a run of a project on whichever replica has it. Return False if none has it.

        Raises:
            RequestError: The bus is not connected.
        """
        ...
