"""Ports of the gateway: the bus, the object store, and the output of runs. Retry of calls while a service is away."""

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, TypeVar

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.index_switch import SwitchProgress
from skillbus.contracts.learner.learning_jobs import LearningAdvanced
from skillbus.contracts.message import JSON, Message
from skillbus.contracts.sandbox.run_history import RunEvent

RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)
T = TypeVar("T")

AWAY: Final = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.DEADLINE_EXCEEDED, ErrorCode.OVERLOADED})
"""Errors of a service that is away or busy for the moment."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0


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

    async def call_for_json(
        self, endpoint: Endpoint[RequestT, Message], request: RequestT, *, timeout_s: float | None = None
    ) -> bytes:
        """Send a request and return the reply as JSON, to be passed on as it is. Raises as `call`."""
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

    async def put_file(self, name: str, file: io.BufferedIOBase, size_bytes: int) -> None:
        """Store the rest of a file, from its current position: `size_bytes` bytes."""
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


class StoredContent(Protocol):
    """Object that was stored."""

    @property
    def size_bytes(self) -> int: ...

    @property
    def sha256(self) -> str:
        """SHA-256 of the content, in hexadecimal."""
        ...


class ObjectSink(Protocol):
    """Bucket for large uploads. Every method raises RequestError if the bus is away."""

    async def put_pieces(self, name: str, pieces: AsyncIterable[bytes]) -> StoredContent:
        """Store what arrives in pieces, without keeping it in memory."""
        ...

    async def delete(self, name: str) -> None:
        """Delete an object if it exists."""
        ...


OpenLearningFeed = Callable[[str], AbstractAsyncContextManager[AsyncIterator[LearningAdvanced]]]
"""Function that subscribes to the progress of a job. The iterator has no end."""
OpenSwitchFeed = Callable[[], AbstractAsyncContextManager[AsyncIterator[SwitchProgress]]]
"""Function that subscribes to the progress of all switches. The iterator has no end. Raises RequestError if the bus is
away."""
OpenRunFeed = Callable[[str], AbstractAsyncContextManager[AsyncIterator[RunEvent]]]
"""Function that subscribes to the events of a run. The iterator has no end. Raises RequestError if the bus is away."""


class Connection(Protocol):
    """Connection to the bus."""

    @property
    def is_connected(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ServiceInstance:
    """Process that answers the requests of a service."""

    service: str
    version: str
    started_at: datetime


class ServiceDiscovery(Protocol):
    """Search for the services on the bus."""

    async def list_instances(self) -> tuple[ServiceInstance, ...]:
        """Return the instances of all services that answer within a second. Raises RequestError if the bus is away."""
        ...


class Storage(Protocol):
    """Disk of the data."""

    def explain_refusal(self) -> str | None:
        """Return why new data is refused, or None if it is accepted."""
        ...


async def retry_while_away(attempt: Callable[[], Awaitable[T]], until: float) -> T:
    """Repeat an idempotent call while its service is away. `until` is a time of the event loop."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await attempt()
        except RequestError as error:
            if error.code not in AWAY or asyncio.get_running_loop().time() + pause_s > until:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
