"""Calls of JetStream: their deadline and errors, and the last message of every subject of a stream."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import BucketNotFoundError, ObjectNotFoundError

from skillbus.contracts.errors import ErrorCode, RequestError

_TIMEOUT_S: Final = 20.0
_FETCH: Final = 256
_FETCH_TIMEOUT_S: Final = 1.0
_CONSUMER_EXPIRES_S: Final = 30.0


@asynccontextmanager
async def jetstream_call(action: str, timeout_s: float = _TIMEOUT_S) -> AsyncGenerator[None]:
    """Give the calls inside a deadline, and raise their errors as errors of the contract.

    `action` completes the message "Could not …", for example "put a.zip into skills".

    Raises:
        RequestError: `not_found` for a missing bucket or object, `deadline_exceeded`, or `unavailable`.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (ObjectNotFoundError, BucketNotFoundError) as error:
        raise RequestError(ErrorCode.NOT_FOUND, f"Could not {action}: it does not exist.") from error
    except TimeoutError as error:
        raise RequestError(ErrorCode.DEADLINE_EXCEEDED, f"Could not {action} in time.") from error
    except NatsError as error:
        raise RequestError(ErrorCode.UNAVAILABLE, f"Could not {action}: {error!r}") from error


async def iterate_last_values(jetstream: JetStreamContext, stream: str, subjects: str) -> AsyncIterator[Msg]:
    """Yield the last message of each subject that matches `subjects`, in stream order. Raises NatsError.

    These are the current entries of a key-value bucket or an object store. They are read through a temporary consumer:
    the watches of nats-py can report an empty bucket before the first message arrives.
    """
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
        ack_policy=AckPolicy.NONE,
        inactive_threshold=_CONSUMER_EXPIRES_S,
    )
    consumer = await jetstream.pull_subscribe(subjects, stream=stream, config=config)
    try:
        while pending := (await consumer.consumer_info()).num_pending or 0:
            # A subject written in the meantime is no longer pending: the fetch times out and is repeated.
            with suppress(TimeoutError):
                for message in await consumer.fetch(min(pending, _FETCH), timeout=_FETCH_TIMEOUT_S):
                    yield message
    finally:
        await consumer.unsubscribe()
