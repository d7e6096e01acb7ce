"""What the gateway needs from the outside."""

import io
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.message import JSON, Message
from skillbus.contracts.sandbox.run_history import RunEvent

RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)


class BusCaller(Protocol):
    """Asks services."""

    async def call(
        self,
        endpoint: Endpoint[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_s: float | None = None,
        content_type: str = JSON,
    ) -> ReplyT:
        """The reply; `content_type` is how it crosses the bus. Raises `RequestError` for every other outcome."""
        ...


class StoredObject(Protocol):
    """An object that is there."""

    @property
    def size_bytes(self) -> int:
        """How large it is."""
        ...

    @property
    def pieces(self) -> AsyncGenerator[bytes]:
        """Its bytes in order; to be closed when not read to the end. Raises `RequestError` when one does not come."""
        ...


class Objects(Protocol):
    """A bucket of files on the bus. Every method raises `RequestError` when the bus is away."""

    async def put(self, name: str, data: bytes) -> None:
        """Store bytes under a name."""
        ...

    async def put_file(self, name: str, file: io.BufferedIOBase) -> None:
        """Store what a file holds from its current position on."""
        ...

    async def get(self, name: str, max_bytes: int) -> bytes:
        """The bytes of an object; `not_found`, or `payload_too_large` above `max_bytes`."""
        ...

    async def open(self, name: str, max_bytes: int) -> StoredObject:
        """An object to be read piece by piece; `not_found`, or `payload_too_large` above `max_bytes`."""
        ...

    async def delete(self, name: str) -> None:
        """Remove an object, which need not be there."""
        ...


class RunFeed(Protocol):
    """What runs print, while they run."""

    def listen(self, run_id: str) -> AbstractAsyncContextManager[AsyncIterator[RunEvent]]:
        """What is told of a run from now on, without end. Raises `RequestError` when the bus is away."""
        ...


class Connection(Protocol):
    """The connection to the bus."""

    @property
    def is_connected(self) -> bool:
        """Whether it is there now."""
        ...
