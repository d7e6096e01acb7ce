"""Turns on the bus: lines to the replica that has one, messages to followers, facts, and stored turns."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final
from uuid import uuid4

import structlog
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from skillbus.agent.domain.chat.approval_desk import DeskAnswer
from skillbus.agent.domain.chat.turn_state import TurnState
from skillbus.common.background import end_tasks, finish_within
from skillbus.common.bus import headers as h
from skillbus.common.bus.codec import decode, encode
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import CancelLines, make_event_subject, publish_events, publish_to_feed
from skillbus.common.bus.jetstream_batch import BatchRequest
from skillbus.common.bus.kv_records import KvRecords
from skillbus.contracts.agent.approvals import DECIDE_CALL_SIGNALS, DecideCall
from skillbus.contracts.agent.turns import (
    CANCEL_TURN_SIGNALS,
    FOLLOW_TURN_SIGNALS,
    TURN_ADVANCED,
    FollowTurn,
    TurnEvent,
    TurnFact,
    TurnFollowed,
)
from skillbus.contracts.endpoint import Event
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import JSON, Message
from skillbus.contracts.resources import TURNS

_SPARE_S: Final = 5.0
_GATHERED_S: Final = 0.02
"""Wait for further facts, so that those of a short step are stored together."""
_FACTS_AT_ONCE: Final = 100
_FACTS: Final = 10_000
"""Facts that wait for the stream. Further ones are dropped, with a log line."""
STORED_BYTES: Final = 900 * 1024
"""Largest stored turn: a message of the bus has 1 MiB."""

log = structlog.get_logger(__name__)


class BusTurnLines:
    """Implements `TurnLines`."""

    def __init__(self, bus: Bus) -> None:
        self._client = bus.client
        self._cancel_lines = CancelLines(bus.client, CANCEL_TURN_SIGNALS)

    @asynccontextmanager
    async def listen(
        self, turn_id: str, project: str, follow: Callable[[FollowTurn], Awaitable[TurnFollowed]]
    ) -> AsyncGenerator[asyncio.Event]:
        async def answer(message: Msg) -> None:
            request = decode(FollowTurn, message.data)
            # A turn of another project is as one that does not exist.
            await message.respond(encode(await follow(request)) if request.project == project else b"")

        answering = set[asyncio.Task[None]]()

        async def on_follow(message: Msg) -> None:
            task = asyncio.create_task(answer(message))  # it may wait, and others ask meanwhile
            answering.add(task)
            task.add_done_callback(answering.discard)

        subscription = await self._client.subscribe(FOLLOW_TURN_SIGNALS.replace("*", turn_id), cb=on_follow)
        try:
            async with self._cancel_lines.listen(turn_id, project) as cancelled:
                yield cancelled
        finally:
            if not self._client.is_closed:
                await subscription.unsubscribe()
            await end_tasks(*answering)

    @asynccontextmanager
    async def listen_decisions(
        self, turn_id: str, project: str, decide: Callable[[DecideCall], DeskAnswer]
    ) -> AsyncGenerator[None]:
        async def on_decision(message: Msg) -> None:
            request = decode(DecideCall, message.data)
            await message.respond(encode(decide(request)) if request.project == project else b"")

        subscription = await self._client.subscribe(DECIDE_CALL_SIGNALS.replace("*", turn_id), cb=on_decision)
        try:
            yield
        finally:
            if not self._client.is_closed:
                await subscription.unsubscribe()

    async def cancel(self, turn_id: str, project: str) -> bool:
        return await self._cancel_lines.cancel(turn_id, project)

    async def follow(self, request: FollowTurn) -> TurnFollowed | None:
        data = await self._ask(FOLLOW_TURN_SIGNALS, request.turn_id, request, request.wait_s + _SPARE_S)
        return decode(TurnFollowed, data) if data else None

    async def decide(self, request: DecideCall) -> DeskAnswer | None:
        data = await self._ask(DECIDE_CALL_SIGNALS, request.turn_id, request, _SPARE_S)
        return decode(DeskAnswer, data) if data else None

    async def _ask(self, signals: str, turn_id: str, request: Message, timeout_s: float) -> bytes:
        """Return the answer of the replica that has the turn; empty if there is none."""
        try:
            answer = await self._client.request(signals.replace("*", turn_id), encode(request), timeout=timeout_s)
        except NoRespondersError:
            return b""
        except NatsError as error:
            raise RequestError(ErrorCode.UNAVAILABLE, f"The turn {turn_id} cannot be reached: {error!r}") from error
        return answer.data


class TurnFeed:
    """Sends messages about turns to followers, and facts to the stream in the background."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._facts: asyncio.Queue[tuple[str, BatchRequest]] = asyncio.Queue(_FACTS)
        """Facts with the ids of their turns."""

    async def publish(self, event: TurnEvent) -> None:
        """Send a message to the followers of its turn."""
        try:
            await publish_to_feed(self._bus.client, TURN_ADVANCED, event.turn_id, event)
        except NatsError as error:
            # Followers see the gap in the numbers, and ask for the messages again.
            log.warning("turn_event_not_sent", turn_id=event.turn_id, error=repr(error))

    def announce(self, event: Event[TurnFact], fact: TurnFact) -> None:
        """Store a fact in the background."""
        if self._facts.full():
            log.warning("turn_fact_dropped", turn_id=fact.turn_id, fact=event.fact)
            return
        self._facts.put_nowait((fact.turn_id, _make_request(event, fact)))

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Store facts while the context is open; leaving it stores those that wait."""
        storing = asyncio.create_task(self._store_facts())
        try:
            yield
        finally:
            await finish_within(self._facts.join(), _SPARE_S)
            await end_tasks(storing)

    async def _store_facts(self) -> None:
        while True:
            waiting = [await self._facts.get()]
            await asyncio.sleep(_GATHERED_S)
            while not self._facts.empty() and len(waiting) < _FACTS_AT_ONCE:
                waiting.append(self._facts.get_nowait())
            try:
                await publish_events(self._bus, [request for _, request in waiting])
            except RequestError as error:
                turns = sorted({turn_id for turn_id, _ in waiting})
                log.warning("turn_facts_not_stored", turn_ids=turns, code=error.code)
            finally:
                for _ in waiting:
                    self._facts.task_done()


class KvTurns:
    """Implements `TurnStore`. A turn that is too large is not stored; the next one does without its hidden steps."""

    def __init__(self, bus: Bus) -> None:
        self._records = KvRecords(bus, TURNS, TurnState, exclude_defaults=True)

    async def save_turn(self, state: TurnState) -> None:
        # The caller sends its own messages and tools again.
        own = {"history": (), "chat": state.chat.model_copy(update={"messages": state.chat.messages[-1:], "tools": ()})}
        kept = state.model_copy(update=own)
        size = len(encode(kept))
        if size > STORED_BYTES:
            log.warning("turn_not_stored", turn_id=state.turn_id, size_bytes=size)
            return
        await self._records.save(_make_key(state.chat.project, state.turn_id), kept, 0)

    async def load_turn(self, project: str, turn_id: str) -> TurnState | None:
        stored = await self._records.load(_make_key(project, turn_id))
        return None if stored is None else stored.record


def _make_request(event: Event[TurnFact], fact: TurnFact) -> BatchRequest:
    headers = {
        h.MESSAGE_ID: f"{event.entity}:{event.fact}:{uuid4().hex}",
        h.CONTENT_TYPE: JSON,
        h.PROJECT: fact.project,
    }
    if trace := h.traceparent.get():
        headers[h.TRACEPARENT] = trace
    return BatchRequest(make_event_subject(event, fact.turn_id), encode(fact), headers)


def _make_key(project: str, turn_id: str) -> str:
    return f"{project}.{turn_id}"
