"""What a run prints, as messages of its feed."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError

from skillbus.common.bus.feeds import publish_to_feed
from skillbus.contracts.sandbox.run_history import (
    FEED_BYTES,
    RUN_PRINTED,
    OutputStream,
    RunEvent,
    RunEventKind,
    RunState,
)
from skillbus.sandbox.domain.run.spec import Stream

_TOGETHER_S: Final = 0.01
"""What is printed within it goes out together: a script that prints byte by byte makes no message of each."""
_END_S: Final = 5.0
"""For the rest of the output to be handed to the connection."""

log = structlog.get_logger(__name__)


class FeedWriter:
    """Tells a run's output in small messages, in order. What it holds is bounded by the run's limit of output."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self._printed: dict[Stream, bytearray] = {stream: bytearray() for stream in Stream}
        self._more = asyncio.Event()
        self._over = asyncio.Event()
        self._ended: RunState | None = None
        self._number = 0
        self._lost = False

    async def __aenter__(self) -> Self:
        self._writing = asyncio.create_task(self._write())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writing.cancel()
        await asyncio.wait([self._writing])

    async def begin(self) -> None:
        """The run was accepted."""
        await self._tell(RunEventKind.BEGUN)

    def hear(self, stream: Stream, chunk: bytes) -> None:
        """It printed this."""
        self._printed[stream] += chunk
        self._more.set()

    async def end(self, state: RunState) -> None:
        """It ended. Returns when everything is on its way, or cannot be."""
        self._ended = state
        self._over.set()
        self._more.set()
        await asyncio.wait([self._writing], timeout=_END_S)

    async def _write(self) -> None:
        while self._ended is None:
            await self._more.wait()
            self._more.clear()
            await self._write_printed()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _TOGETHER_S)
        await self._write_printed()
        await self._tell(RunEventKind.ENDED, state=self._ended)

    async def _write_printed(self) -> None:
        for stream in Stream:
            data, self._printed[stream] = bytes(self._printed[stream]), bytearray()
            for at in range(0, len(data), FEED_BYTES):
                await self._tell(RunEventKind.OUTPUT, stream=OutputStream(stream), data=data[at : at + FEED_BYTES])

    async def _tell(
        self,
        kind: RunEventKind,
        *,
        stream: OutputStream | None = None,
        data: bytes = b"",
        state: RunState | None = None,
    ) -> None:
        if self._lost:
            return
        event = RunEvent(run_id=self._run_id, number=self._number, kind=kind, stream=stream, data=data, state=state)
        self._number += 1
        try:
            await publish_to_feed(self._client, RUN_PRINTED, self._run_id, event)
        except NatsError as error:
            # The connection is away and its buffer full. Who listens misses the end too, and goes by the reply.
            self._lost = True
            log.warning("run_not_told", run_id=self._run_id, number=event.number, error=repr(error))
