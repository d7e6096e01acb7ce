"""Runs on plain subjects of NATS: what they print goes out, and the wish to end one finds whoever has it.

Each run listens on a subject of its own for that wish, so that it does not matter which replica is asked; where nobody
listens any more the server says so at once.
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
    """`RunLine` of one run; without a writer nobody listens to it."""

    def __init__(self, control: RunControl, writer: FeedWriter | None) -> None:
        self._control = control
        self._writer = writer

    @property
    def control(self) -> RunControl:
        return self._control

    async def begun(self) -> None:
        if self._writer is not None:
            await self._writer.begin()

    async def ended(self, state: RunState) -> None:
        if self._writer is not None:
            await self._writer.end(state)


class BusRunLines:
    """`RunLines` of one replica."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._open = set[str]()

    @asynccontextmanager
    async def open(self, run_id: str, project: str, *, told: bool) -> AsyncGenerator[BusRunLine]:
        if run_id in self._open:
            raise RunKnown(f"the run {run_id} goes on: choose another id, at random")
        self._open.add(run_id)
        try:
            async with self._listening(run_id, project) as cancelled:
                if not told:
                    yield BusRunLine(RunControl(cancelled=cancelled), None)
                    return
                async with FeedWriter(self._client, run_id) as writer:
                    yield BusRunLine(RunControl(writer.hear, cancelled), writer)
        finally:
            self._open.discard(run_id)

    async def cancel(self, run_id: str, project: str) -> bool:
        try:
            answer = await self._client.request(_subject(run_id), project.encode(), timeout=_ANSWER_S)
        except NoRespondersError:
            return False
        except NatsError as error:
            raise RequestError(ErrorCode.UNAVAILABLE, f"Could not reach the run {run_id}: {error!r}") from error
        return answer.data == _YES

    @asynccontextmanager
    async def _listening(self, run_id: str, project: str) -> AsyncGenerator[asyncio.Event]:
        cancelled = asyncio.Event()

        async def on_wish(message: Msg) -> None:
            ours = message.data.decode(errors="replace") == project
            if ours:
                cancelled.set()
            await message.respond(_YES if ours else _NO)

        try:
            subscription = await self._client.subscribe(_subject(run_id), cb=on_wish)
        except NatsError as error:
            raise RequestError(ErrorCode.UNAVAILABLE, f"The bus is not there: {error}") from error
        try:
            yield cancelled
        finally:
            with suppress(NatsError):  # a connection that closes takes its subscriptions along
                await subscription.unsubscribe()


def _subject(run_id: str) -> str:
    return f"skillbus.ctl.run.cancel.{run_id}"
