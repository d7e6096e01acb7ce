"""Feed of a run: its output as messages on the bus."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError

from skillbus.common.bus.events import publish_to_feed
from skillbus.contracts.sandbox.run_history import (
    FEED_BYTES,
    RUN_PRINTED,
    OutputStream,
    RunEvent,
    RunEventKind,
    RunState,
)

_TOGETHER_S: Final = 0.01
"""Output within this time goes out in one message, so that a script that prints single bytes causes few."""
_END_S: Final = 5.0
"""Time limit for handing the remaining output to the connection."""

log = structlog.get_logger(__name__)


class FeedWriter:
    """Writer that publishes a run's output in order, in small messages. The run's output limit bounds its buffer."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self._printed: dict[OutputStream, bytearray] = {stream: bytearray() for stream in OutputStream}
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

    async def announce_start(self) -> None:
        """Publish that the run was accepted."""
        await self._publish(RunEventKind.BEGUN)

    def add_output(self, stream: OutputStream, chunk: bytes) -> None:
        """Queue output of the run."""
        self._printed[stream] += chunk
        self._more.set()

    async def announce_end(self, state: RunState) -> None:
        """Publish the remaining output and the final state, or give up if the connection is lost."""
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
        await self._publish(RunEventKind.ENDED, state=self._ended)

    async def _write_printed(self) -> None:
        for stream in OutputStream:
            data, self._printed[stream] = bytes(self._printed[stream]), bytearray()
            for at in range(0, len(data), FEED_BYTES):
                await self._publish(RunEventKind.OUTPUT, stream=stream, data=data[at : at + FEED_BYTES])

    async def _publish(
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
            # The connection is down and its buffer full. Listeners miss the end as well and use the reply instead.
            self._lost = True
            log.warning("run_feed_lost", run_id=self._run_id, number=event.number, error=repr(error))
