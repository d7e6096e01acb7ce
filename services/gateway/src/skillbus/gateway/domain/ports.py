"""Ports of the gateway: the bus, the object store, and the output of runs."""

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
    """Client of the services."""

    async def call(
        self,
        endpoint: Endpoint[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_s: float | None = None,
        content_type: str = JSON,
    ) -> ReplyT:
        """Send a request and return the reply. Raises RequestError for every other outcome."""
        ...


class OpenedObject(Protocol):
    """Object that is being read."""

    @property
    def size_bytes(self) -> int: ...

    @property
    def pieces(self) -> AsyncGenerator[bytes]:
        """Bytes in order. Close it if you do not read to the end. Raises RequestError if a piece does not arrive."""
        ...


class ObjectFiles(Protocol):
    """Bucket of the object store. Every method raises RequestError if the bus is away."""

    async def put(self, name: str, data: bytes) -> None:
        """Store bytes under a name."""
        ...

    async def put_file(self, name: str, file: io.BufferedIOBase) -> None:
        """Store the rest of a file, from its current position."""
        ...

    async def get(self, name: str, max_bytes: int) -> bytes:
        """Return the bytes of an object. Raises `not_found`, or `payload_too_large` above `max_bytes`."""
        ...

    async def open(self, name: str, max_bytes: int) -> OpenedObject:
        """Open an object to read it in pieces. Raises `not_found`, or `payload_too_large` above `max_bytes`."""
        ...

    async def delete(self, name: str) -> None:
        """Delete an object if it exists."""
        ...


class RunFeed(Protocol):
    """Live output of runs."""

    def listen(self, run_id: str) -> AbstractAsyncContextManager[AsyncIterator[RunEvent]]:
        """Subscribe to the events of a run. The iterator has no end. Raises RequestError if the bus is away."""
        ...


class Connection(Protocol):
    """Connection to the bus."""

    @property
    def is_connected(self) -> bool: ...
