"""Lines of runs on plain NATS subjects: output goes out, cancellation comes in."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final, Self

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError

from skillbus.common.bus.events import CancelLines, publish_to_feed
from skillbus.contracts.sandbox.run_history import (
    CANCEL_SIGNALS,
    FEED_BYTES,
    RUN_PRINTED,
    OutputStream,
    RunEvent,
    RunEventKind,
    RunState,
)
from skillbus.sandbox.domain.errors import RunKnown
from skillbus.sandbox.domain.run.spec import RunControl

_TOGETHER_S: Final = 0.01
"""Output within this time goes out in one message, so that a script that prints single bytes causes few."""
_END_S: Final = 5.0
"""Time limit for handing the remaining output to the connection."""

log = structlog.get_logger(__name__)


class BusRunLine:
    """`RunLine` of one run. If `streamed`, it publishes the output in order, in small messages.

    The run's output limit bounds its buffer.
    """

    def __init__(self, client: Client, run_id: str, cancelled: asyncio.Event, *, streamed: bool) -> None:
        self.control = RunControl(self._add_output if streamed else None, cancelled)
        self._client = client
        self._run_id = run_id
        self._streamed = streamed
        self._printed: dict[OutputStream, bytearray] = {stream: bytearray() for stream in OutputStream}
        self._more = asyncio.Event()
        self._over = asyncio.Event()
        self._ended: RunState | None = None
        self._number = 0
        self._lost = False

    async def __aenter__(self) -> Self:
        if self._streamed:
            self._writing = asyncio.create_task(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._streamed:
            self._writing.cancel()
            await asyncio.wait([self._writing])

    async def announce_start(self) -> None:
        if self._streamed:
            await self._publish(RunEventKind.BEGUN)

    async def announce_end(self, state: RunState) -> None:
        """See `RunLine.announce_end`. Gives up if the connection is lost."""
        if self._streamed:
            self._ended = state
            self._over.set()
            self._more.set()
            await asyncio.wait([self._writing], timeout=_END_S)

    def _add_output(self, stream: OutputStream, chunk: bytes) -> None:
        self._printed[stream] += chunk
        self._more.set()

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


class BusRunLines:
    """`RunLines` of one replica."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._cancel_lines = CancelLines(client, CANCEL_SIGNALS)
        self._open = set[str]()

    @asynccontextmanager
    async def open(self, run_id: str, project: str, *, streamed: bool) -> AsyncGenerator[BusRunLine]:
        if run_id in self._open:
            raise RunKnown(f"run {run_id} is running: choose another random id")
        self._open.add(run_id)
        try:
            async with (
                self._cancel_lines.listen(run_id, project) as cancelled,
                BusRunLine(self._client, run_id, cancelled, streamed=streamed) as line,
            ):
                yield line
        finally:
            self._open.discard(run_id)

    async def cancel(self, run_id: str, project: str) -> bool:
        return await self._cancel_lines.cancel(run_id, project)
