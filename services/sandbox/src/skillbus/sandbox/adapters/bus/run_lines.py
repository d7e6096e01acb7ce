"""Lines of runs on plain NATS subjects: output goes out, cancellation comes in.

Each run subscribes to a subject of its own for cancellation, so that any replica can be asked. When nobody subscribes,
the server answers at once.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.sandbox.run_history import RunState
from skillbus.sandbox.adapters.bus.feed_writer import FeedWriter
from skillbus.sandbox.domain.errors import RunKnown
from skillbus.sandbox.domain.run.spec import RunControl

_ANSWER_S: Final = 2.0
_YES, _NO = b"+", b"-"


class BusRunLine:
    """`RunLine` of one run; without a writer it has no listeners."""

    def __init__(self, control: RunControl, writer: FeedWriter | None) -> None:
        self._control = control
        self._writer = writer

    @property
    def control(self) -> RunControl:
        return self._control

    async def announce_start(self) -> None:
        if self._writer is not None:
            await self._writer.announce_start()

    async def announce_end(self, state: RunState) -> None:
        if self._writer is not None:
            await self._writer.announce_end(state)


class BusRunLines:
    """`RunLines` of one replica."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._open = set[str]()

    @asynccontextmanager
    async def open(self, run_id: str, project: str, *, streamed: bool) -> AsyncGenerator[BusRunLine]:
        if run_id in self._open:
            raise RunKnown(f"run {run_id} is running: choose another random id")
        self._open.add(run_id)
        try:
            async with self._listening(run_id, project) as cancelled:
                if not streamed:
                    yield BusRunLine(RunControl(cancelled=cancelled), None)
                    return
                async with FeedWriter(self._client, run_id) as writer:
                    yield BusRunLine(RunControl(writer.add_output, cancelled), writer)
        finally:
            self._open.discard(run_id)

    async def cancel(self, run_id: str, project: str) -> bool:
        try:
            answer = await self._client.request(_subject(run_id), project.encode(), timeout=_ANSWER_S)
        except NoRespondersError:
            return False
        except NatsError as error:
            raise RequestError(ErrorCode.UNAVAILABLE, f"Run {run_id} cannot be reached: {error!r}") from error
        return answer.data == _YES

    @asynccontextmanager
    async def _listening(self, run_id: str, project: str) -> AsyncGenerator[asyncio.Event]:
        cancelled = asyncio.Event()

        async def on_cancel(message: Msg) -> None:
            ours = message.data.decode(errors="replace") == project
            if ours:
                cancelled.set()
            await message.respond(_YES if ours else _NO)

        try:
            subscription = await self._client.subscribe(_subject(run_id), cb=on_cancel)
        except NatsError as error:
            raise RequestError(ErrorCode.UNAVAILABLE, f"The bus is unavailable: {error}") from error
        try:
            yield cancelled
        finally:
            with suppress(NatsError):  # a connection that closes takes its subscriptions along
                await subscription.unsubscribe()


def _subject(run_id: str) -> str:
    return f"skillbus.ctl.run.cancel.{run_id}"
