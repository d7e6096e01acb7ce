"""Feeds: what is told while it happens, on plain subjects, to whoever listens."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from nats.aio.client import Client
from nats.errors import Error as NatsError

from skillbus.common.bus.codec import decode, encode
from skillbus.contracts.endpoint import Feed
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Message

ToldT = TypeVar("ToldT", bound=Message)


async def tell(client: Client, feed: Feed[ToldT], identity: str, body: ToldT) -> None:
    """Say something to those who listen now. Raises NatsError when the connection is away and its buffer full."""
    await client.publish(feed.subject(identity), encode(body))


@asynccontextmanager
async def listen(client: Client, feed: Feed[ToldT], identity: str) -> AsyncGenerator[AsyncIterator[ToldT]]:
    """What is told about one thing from now on, without end. Enter it before asking for what it tells about.

    Raises:
        RequestError: `unavailable` when the connection is away.
    """
    try:
        subscription = await client.subscribe(feed.subject(identity))
    except NatsError as error:
        raise RequestError(ErrorCode.UNAVAILABLE, f"The bus is not there: {error}") from error

    async def told() -> AsyncGenerator[ToldT]:
        async for message in subscription.messages:
            yield decode(feed.body, message.data)

    try:
        yield told()
    finally:
        if not client.is_closed:
            await subscription.unsubscribe()
