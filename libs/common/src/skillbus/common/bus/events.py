"""Events on JetStream: publishing them, and consuming them with retries and dead letters. Feeds, and cancellation.

Consumers are durable pull consumers on FastStream. FastStream's defaults lose a message (an exception ends it after one
delivery) or repeat it at once (a NAK has no delay). Here a failed message is delivered again after the delays of
`DELAYS_S`, then stored as a dead letter, and only then ended (ADR 0003).

Feeds are messages on plain subjects for current subscribers. So are the signals that cancel work, on whichever replica
does it: that one subscribes to a subject for each piece of work. If nobody subscribes, the server says so at once.
"""

import asyncio
import random
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog
from faststream import AckPolicy
from faststream._internal.broker import BrokerUsecase
from faststream.exceptions import NackMessage, RejectMessage
from faststream.message import StreamMessage
from faststream.nats import JStream, NatsBroker, PullSub
from faststream.nats.subscriber.usecases.stream_pull_subscriber import PullStreamSubscriber
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError, NoRespondersError
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy as ConsumerAckPolicy
from nats.js.api import ConsumerConfig
from pydantic_core import from_json

from skillbus.common.bus import headers as h
from skillbus.common.bus.codec import decode, encode
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream_batch import BatchRequest, send_batch
from skillbus.contracts.endpoint import Event, Feed
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import JSON, Message
from skillbus.contracts.resources import DEAD_LETTERS, EVENTS, Consumer

MessageT = TypeVar("MessageT", bound=Message)
BodyT = TypeVar("BodyT", bound=Message)

DELAYS_S: Final = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Delay before each further delivery. If the last one fails, the event becomes a dead letter."""
_SPARE_DELIVERIES: Final = 4
"""Deliveries beyond those of `DELAYS_S`: for replicas that die at work, and for dead letters that cannot be stored."""
MAX_DELIVER: Final = len(DELAYS_S) + 1 + _SPARE_DELIVERIES

SUBJECT_HEADER: Final = "Skillbus-Subject"
"""Header of a dead letter: the subject of the original message."""
ERROR_HEADER: Final = "Skillbus-Error"
"""Header of a dead letter: the error of the last delivery."""

_CANCEL_S: Final = 2.0
_YES, _NO = b"+", b"-"
_FETCH_TIMEOUT_S: Final = 1.0
_DEAD_LETTER_TIMEOUT_S: Final = 5.0
_ERROR_CHARACTERS: Final = 500
_ACK_TIMEOUT_S: Final = 5.0
_PUBLISH_AGAIN_S: Final = 0.5
_PUBLISH_FOR_S: Final = 30.0
_NOT_A_TOKEN: Final = re.compile(r"[^A-Za-z0-9_-]+")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message of a stream, as its handler receives it."""

    subject: str
    body: bytes
    headers: dict[str, str]
    attempt: int
    """1 for the first delivery."""

    def decode(self, kind: type[MessageT]) -> MessageT:
        """Parse the body. Raise PermanentError if that fails: another delivery would fail too."""
        try:
            return decode(kind, self.body)
        except RequestError as error:
            raise PermanentError(error.message) from error


class PermanentError(Exception):
    """Raised by a handler when a retry cannot help: the message becomes a dead letter at once."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A durable consumer and the handler of its messages.

    A handler that returns has handled the message. If it raises, the message is delivered again later.
    """

    consumer: Consumer
    handle: Callable[[Delivery], Awaitable[None]]
    delays_s: tuple[float, ...] = DELAYS_S


async def publish_event(
    bus: Bus, event: Event[BodyT], body: BodyT, *, identity: str, message_id: str, project: str
) -> None:
    """Publish an event and wait until the stream has stored it. Failed attempts are repeated for 30 s.

    Args:
        identity: Id of the thing that changed; it becomes the last token of the subject.
        message_id: Id by which the stream drops repetitions. Use the same one for each attempt.
        project: Project of the event, for consumers that filter before they decode.

    Raises:
        RequestError: `unavailable` if the stream did not store it in time, `storage_full` on a full disk.
    """
    headers = {h.MESSAGE_ID: message_id, h.CONTENT_TYPE: JSON, h.PROJECT: project}
    if trace := h.traceparent.get():
        headers[h.TRACEPARENT] = trace
    await _store_event(bus, BatchRequest(make_event_subject(event, identity), encode(body), headers))


async def publish_events(bus: Bus, events: Sequence[BatchRequest]) -> None:
    """Publish several events in their order, and wait once for all. Those not stored at once are published again.

    Each needs the header `MESSAGE_ID`, by which the stream drops repetitions. Raises RequestError as `publish_event`.
    """
    try:
        async with asyncio.timeout(_ACK_TIMEOUT_S):
            replies = await send_batch(bus.client, events)
    except (NatsError, TimeoutError):
        refused = list(events)
    else:
        refused = [event for event, reply in zip(events, replies, strict=True) if "error" in from_json(reply.data)]
    for event in refused:
        await _store_event(bus, event)


def make_event_subject(event: Event[BodyT], identity: str) -> str:
    """Return the subject of an event about one thing, whatever characters its id has."""
    return event.subject(_NOT_A_TOKEN.sub("_", identity) or "_")


async def _store_event(bus: Bus, event: BatchRequest) -> None:
    subject, body, headers = event.subject, event.body, dict(event.headers or {})
    give_up_at = time.monotonic() + _PUBLISH_FOR_S
    while True:
        try:
            await bus.jetstream.publish(subject, body, timeout=_ACK_TIMEOUT_S, stream=EVENTS.name, headers=headers)
        except (NatsError, TimeoutError) as error:
            if bus.disk is not None:
                bus.disk.check()  # further attempts would be in vain
            if time.monotonic() >= give_up_at:
                raise RequestError(ErrorCode.UNAVAILABLE, f"The stream did not store {subject}: {error!r}") from error
            log.warning("event_not_stored_yet", subject=subject, error=repr(error))
            await asyncio.sleep(_PUBLISH_AGAIN_S)
        else:
            return


def consumer_config(consumer: Consumer) -> ConsumerConfig:
    """Return the configuration of a declared consumer for NATS."""
    return ConsumerConfig(
        durable_name=consumer.name,
        filter_subjects=list(consumer.subjects),
        ack_policy=ConsumerAckPolicy.EXPLICIT,
        ack_wait=consumer.ack_wait_s,
        max_deliver=MAX_DELIVER,
        max_ack_pending=1024,
    )


class _SharedConnectionBroker(NatsBroker):
    """A FastStream broker on a shared connection; stopping the broker leaves the connection open."""

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
    """Consume while the context is open. Leaving it finishes the messages in progress and takes no more."""
    broker = _SharedConnectionBroker(bus.client, logger=None, graceful_timeout=20, apply_types=False)
    for subscription in subscriptions:
        _subscribe(broker, bus, subscription)
    await broker.start()
    for subscriber in broker.subscribers:
        if isinstance(subscriber, PullStreamSubscriber) and subscriber.subscription is not None:
            _pause_when_closed(subscriber.subscription)
    try:
        yield
    finally:
        try:
            await broker.stop()
        except* ConnectionClosedError:
            log.warning("consumers_stopped_without_connection")


def _pause_when_closed(subscription: JetStreamContext.PullSubscription) -> None:
    """Make fetches of a closed connection fail after a pause.

    FastStream fetches again at once. A fetch that fails at once would never let another task run, not even the one that
    stops the consumer.
    """
    fetch = subscription.fetch

    async def fetch_or_pause(*args: Any, **options: Any) -> list[Msg]:
        try:
            return await fetch(*args, **options)
        except ConnectionClosedError:
            await asyncio.sleep(_FETCH_TIMEOUT_S)
            raise

    subscription.fetch = fetch_or_pause  # type: ignore[method-assign]


def _subscribe(broker: NatsBroker, bus: Bus, subscription: Subscription) -> None:
    async def pass_undecoded(message: StreamMessage[Msg]) -> Msg:
        return message.raw_message

    async def on_message(message: Msg) -> None:
        await _handle_message(bus, subscription, message)

    consumer = subscription.consumer
    subscriber = broker.subscriber(
        stream=JStream(consumer.stream, declare=False),
        durable=consumer.name,
        # One message for each request: of a larger one, nats-py may hold the first back until it is full or times out.
        pull_sub=PullSub(batch_size=1, timeout=_FETCH_TIMEOUT_S),
        max_workers=consumer.concurrency,
        ack_policy=AckPolicy.NACK_ON_ERROR,
        config=consumer_config(consumer),
        decoder=pass_undecoded,
        # FastStream would use another prefix, on which a user of the server may not be allowed to subscribe.
        inbox_prefix=f"{bus.client.new_inbox().rpartition('.')[0]}.".encode(),
    )
    subscriber(on_message)


async def _handle_message(bus: Bus, subscription: Subscription, message: Msg) -> None:
    """Call the handler. After an error decide between another delivery and a dead letter."""
    meta = message.metadata
    headers = {str(key): str(value) for key, value in (message.headers or {}).items()}
    h.traceparent.set(headers.get(h.TRACEPARENT))
    delivery = Delivery(message.subject, message.data, headers, meta.num_delivered)
    consumer = subscription.consumer
    try:
        async with _keep_alive(message, consumer.ack_wait_s / 3):
            await subscription.handle(delivery)
    except Exception as error:
        # The boundary of the event lane: an unforeseen error is retried, then kept as a dead letter.
        permanent = isinstance(error, PermanentError)
        wait_s = None if permanent else _compute_delay(meta.num_delivered, subscription.delays_s)
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


def _compute_delay(deliveries: int, delays_s: tuple[float, ...]) -> float | None:
    """Return the seconds until the next delivery after `deliveries` failed ones (1 or more); None after the last.

    The delay varies by a fifth in both directions, so that events that failed together do not return together.
    """
    if deliveries > len(delays_s):
        return None
    return delays_s[deliveries - 1] * random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret


@asynccontextmanager
async def _keep_alive(message: Msg, every_s: float) -> AsyncGenerator[None]:
    """Extend the ack wait periodically, so that a long job is not delivered to another replica."""

    async def extend_ack_wait() -> None:
        while True:
            await asyncio.sleep(every_s)
            await message.in_progress()

    task = asyncio.create_task(extend_ack_wait())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def store_dead_letter(bus: Bus, consumer: Consumer, message: Msg, error: Exception) -> None:
    """Store a message that its consumer gave up on. Raises NatsError if the stream did not store it."""
    meta = message.metadata
    reason = f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS].encode("ascii", "replace").decode()
    headers = {
        # Those of NATS steer the stream of the original message: a rollup, for example, is refused by this one.
        **{key: value for key, value in (message.headers or {}).items() if not key.startswith("Nats-")},
        h.MESSAGE_ID: f"{meta.stream}:{consumer.name}:{meta.sequence.stream}",
        ERROR_HEADER: " ".join(reason.split()),
        SUBJECT_HEADER: message.subject,
    }
    await bus.jetstream.publish(
        f"skillbus.dlq.{meta.stream}.{consumer.name}",
        message.data,
        timeout=_DEAD_LETTER_TIMEOUT_S,
        stream=DEAD_LETTERS.name,
        headers=headers,
    )


async def publish_to_feed(client: Client, feed: Feed[BodyT], identity: str, body: BodyT) -> None:
    """Send a message to the current subscribers. Raise NatsError if the connection is lost and its buffer is full."""
    await client.publish(feed.subject(identity), encode(body))


@asynccontextmanager
async def subscribe_to_feed(
    client: Client, feed: Feed[BodyT] | Event[BodyT], identity: str
) -> AsyncGenerator[AsyncIterator[BodyT]]:
    """Iterate over the messages about one thing from now on, or about all with `*`; the iterator has no end.

    Enter the context before the work that they report on. Raises RequestError `unavailable` without a connection.
    """
    try:
        subscription = await client.subscribe(feed.subject(identity))
    except NatsError as error:
        raise RequestError(ErrorCode.UNAVAILABLE, f"The bus is not available: {error}") from error

    async def decode_messages() -> AsyncGenerator[BodyT]:
        async for message in subscription.messages:
            yield decode(feed.body, message.data)

    try:
        yield decode_messages()
    finally:
        if not client.is_closed:
            await subscription.unsubscribe()


class CancelLines:
    """Lines to pieces of work of one kind. `signals` is the pattern of their subjects; its `*` stands for the id."""

    def __init__(self, client: Client, signals: str) -> None:
        self._client = client
        self._signals = signals

    async def cancel(self, work_id: str, project: str) -> bool:
        """Cancel the work of a project; return False if no replica does it. Raises RequestError."""
        try:
            answer = await self._client.request(self._make_subject(work_id), project.encode(), timeout=_CANCEL_S)
        except NoRespondersError:
            return False
        except NatsError as error:
            raise RequestError(ErrorCode.UNAVAILABLE, f"{work_id} cannot be reached: {error!r}") from error
        return answer.data == _YES

    @asynccontextmanager
    async def listen(self, work_id: str, project: str) -> AsyncGenerator[asyncio.Event]:
        """Yield an event that is set when the work is cancelled. Raises RequestError if the bus is away."""
        cancelled = asyncio.Event()

        async def on_cancel(message: Msg) -> None:
            ours = message.data.decode(errors="replace") == project
            if ours:
                cancelled.set()
            await message.respond(_YES if ours else _NO)

        try:
            subscription = await self._client.subscribe(self._make_subject(work_id), cb=on_cancel)
        except NatsError as error:
            raise RequestError(ErrorCode.UNAVAILABLE, f"The bus is unavailable: {error}") from error
        try:
            yield cancelled
        finally:
            with suppress(NatsError):  # a connection that closes takes its subscriptions along
                await subscription.unsubscribe()

    def _make_subject(self, work_id: str) -> str:
        return self._signals.replace("*", work_id)
