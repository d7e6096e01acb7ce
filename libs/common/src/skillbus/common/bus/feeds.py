"""Feeds: messages on plain subjects for those who are subscribed at that moment. Nothing is stored."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from nats.aio.client import Client
from nats.errors import Error as NatsError

from skillbus.common.bus.codec import decode, encode
from skillbus.contracts.endpoint import Feed
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Message

BodyT = TypeVar("BodyT", bound=Message)


async def publish_to_feed(client: Client, feed: Feed[BodyT], identity: str, body: BodyT) -> None:
    """Send a message to the current subscribers. Raise NatsError if the connection is lost and its buffer is full."""
    await client.publish(feed.subject(identity), encode(body))


@asynccontextmanager
async def subscribe_to_feed(client: Client, feed: Feed[BodyT], identity: str) -> AsyncGenerator[AsyncIterator[BodyT]]:
    """Iterate over the messages about one thing from now on; the iterator has no end.

    Enter the context before you start the work that the feed reports on.

    Raises:
        RequestError: `unavailable` if the connection is down.
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
