"""Port to what runs take in and give out."""

from collections.abc import Mapping
from typing import Protocol

from skillbus.contracts.message import Content
from skillbus.contracts.sandbox import skill_runs as contract
from skillbus.sandbox.domain.run.spec import Artifact


class RunFiles(Protocol):
    """Files of runs, on their way in and out."""

    async def fetch(self, files: Mapping[str, Content], max_bytes: int) -> dict[str, bytes]:
        """The bytes of a request's files.

        Raises:
            RequestError: `not_found`, `payload_too_large` when they are more than `max_bytes` together, or
                `invalid_request` when one is not what its digest says.
        """
        ...

    async def keep_output(self, run_id: str, name: str, data: bytes) -> Content:
        """Output as a content: inline when it is small."""
        ...

    async def keep_artifact(self, run_id: str, artifact: Artifact) -> contract.Artifact:
        """An artifact, kept where others can fetch it."""
        ...
