"""The event lane: durable pull consumers on FastStream, retries with backoff, dead letters.

FastStream's defaults lose messages (an exception ends them after one delivery) or hammer them (a NAK comes back at
once), so what happens on an error is decided here: try again after the delays of `retry`, then store the message as a
dead letter and only then end it (ADR 0003).
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog
from faststream import AckPolicy
from faststream._internal.broker import BrokerUsecase
from faststream.exceptions import NackMessage, RejectMessage
from faststream.message import StreamMessage
from faststream.nats import JStream, NatsBroker, PullSub
from nats.aio.client import Client
from nats.aio.msg import Msg

from skillbus.common.bus import headers as h
from skillbus.common.bus.codec import decode
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.provision import consumer_config
from skillbus.common.bus.retry import DELAYS_S, delay_s
from skillbus.contracts.errors import RequestError
from skillbus.contracts.message import Message
from skillbus.contracts.resources import DEAD_LETTERS, Consumer

MessageT = TypeVar("MessageT", bound=Message)

_FETCH_TIMEOUT_S: Final = 1.0
_DEAD_LETTER_TIMEOUT_S: Final = 5.0
_ERROR_CHARACTERS: Final = 500

SUBJECT_HEADER: Final = "Skillbus-Subject"
"""Of a dead letter: where the message was published."""
ERROR_HEADER: Final = "Skillbus-Error"
"""Of a dead letter: why it could not be dealt with."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message of a stream as its handler gets it."""

    subject: str
    body: bytes
    headers: dict[str, str]
    attempt: int
    """1 at the first delivery."""

    def decode(self, kind: type[MessageT]) -> MessageT:
        """The body as a value. A body that cannot be read becomes a dead letter at once: it will not get better."""
        try:
            return decode(kind, self.body)
        except RequestError as error:
            raise PermanentError(error.message) from error


class PermanentError(Exception):
    """A handler raises it when trying again is of no use: the message becomes a dead letter."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A durable consumer and what is done with its messages.

    A handler that returns has dealt with the message. One that raises gets it again later.
    """

    consumer: Consumer
    handle: Callable[[Delivery], Awaitable[None]]
    delays_s: tuple[float, ...] = DELAYS_S


class _SharedConnectionBroker(NatsBroker):
    """A FastStream broker on a connection that others use too; stopping it leaves the connection open."""

    def __init__(self, client: Client, **options: Any) -> None:
        super().__init__(**options)
        self._client = client

    async def _connect(self) -> Client:
        self.config.connect(self._client)
        return self._client

    async def stop(self, *_: object) -> None:
        await BrokerUsecase.stop(self)
        self._connection = None
        self.config.disconnect()


@asynccontextmanager
async def consume(bus: Bus, subscriptions: Sequence[Subscription]) -> AsyncGenerator[None]:
    """Consume while the context is open. Leaving it finishes the messages at work and takes no more."""
    broker = _SharedConnectionBroker(bus.client, logger=None, graceful_timeout=20, apply_types=False)
    for subscription in subscriptions:
        _subscribe(broker, bus, subscription)
    await broker.start()
    try:
        yield
    finally:
        await broker.stop()


def _subscribe(broker: NatsBroker, bus: Bus, subscription: Subscription) -> None:
    consumer = subscription.consumer
    subscriber = broker.subscriber(
        stream=JStream(consumer.stream, declare=False),
        durable=consumer.name,
        # A batch is never larger than what is worked on: messages that wait here would be delivered again elsewhere.
        pull_sub=PullSub(batch_size=consumer.concurrency, timeout=_FETCH_TIMEOUT_S),
        max_workers=consumer.concurrency,
        ack_policy=AckPolicy.NACK_ON_ERROR,
        config=consumer_config(consumer),
        decoder=_undecoded,
        # FastStream has a prefix of its own otherwise, on which a user of the server may not be allowed to listen.
        inbox_prefix=f"{bus.client.new_inbox().rpartition('.')[0]}.".encode(),
    )

    async def on_message(message: Msg) -> None:
        await _deal_with(bus, subscription, message)

    subscriber(on_message)


async def _undecoded(message: StreamMessage[Msg]) -> Msg:
    return message.raw_message


async def _deal_with(bus: Bus, subscription: Subscription, message: Msg) -> None:
    """Hand a message to its handler; on an error decide between another try and a dead letter."""
    meta = message.metadata
    headers = {str(key): str(value) for key, value in (message.headers or {}).items()}
    h.traceparent.set(headers.get(h.TRACEPARENT))
    delivery = Delivery(message.subject, message.data, headers, meta.num_delivered)
    consumer = subscription.consumer
    try:
        async with _kept_alive(message, consumer.ack_wait_s / 3):
            await subscription.handle(delivery)
    except Exception as error:
        # The boundary of the event lane: what a handler did not foresee is tried again, then kept for people.
        permanent = isinstance(error, PermanentError)
        wait_s = None if permanent else delay_s(meta.num_delivered, subscription.delays_s)
        log.warning(
            "event_failed",
            subject=message.subject,
            consumer=consumer.name,
            attempt=meta.num_delivered,
            retry_in_s=wait_s and round(wait_s, 1),
            exc_info=not isinstance(error, RequestError | PermanentError),
            error=str(error),
        )
        if wait_s is not None:
            bus.metrics.events.labels(consumer.stream, consumer.name, "retried").inc()
            raise NackMessage(delay=wait_s) from error
        await store_dead_letter(bus, consumer, message, error)
        bus.metrics.events.labels(consumer.stream, consumer.name, "dead").inc()
        raise RejectMessage from error
    bus.metrics.events.labels(consumer.stream, consumer.name, "done").inc()


@asynccontextmanager
async def _kept_alive(message: Msg, every_s: float) -> AsyncGenerator[None]:
    """Tell the server that the message is at work, so that long work is not delivered to another replica."""

    async def keep_alive() -> None:
        while True:
            await asyncio.sleep(every_s)
            await message.in_progress()

    task = asyncio.create_task(keep_alive())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def store_dead_letter(bus: Bus, consumer: Consumer, message: Msg, error: Exception) -> None:
    """Keep a message that could not be dealt with. Raises NatsError when the stream did not take it."""
    meta = message.metadata
    headers = {
        **(message.headers or {}),
        h.MESSAGE_ID: f"{meta.stream}:{consumer.name}:{meta.sequence.stream}",
        ERROR_HEADER: f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS].encode("ascii", "replace").decode(),
        SUBJECT_HEADER: message.subject,
    }
    headers[ERROR_HEADER] = " ".join(headers[ERROR_HEADER].split())
    await bus.jetstream.publish(
        f"skillbus.dlq.{meta.stream}.{consumer.name}",
        message.data,
        timeout=_DEAD_LETTER_TIMEOUT_S,
        stream=DEAD_LETTERS.name,
        headers=headers,
    )
