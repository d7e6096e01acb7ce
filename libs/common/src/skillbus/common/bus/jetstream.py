"""Calls of JetStream: their deadline and errors, and the last message of every subject of a stream."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError, BucketNotFoundError, ObjectNotFoundError

from skillbus.common.bus.jetstream_batch import find_closed_streams
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.resources import PURGEABLE_STREAMS

_TIMEOUT_S: Final = 20.0
_CHECK_TIMEOUT_S: Final = 1.5
_FETCH: Final = 256
_FETCH_TIMEOUT_S: Final = 1.0
_CONSUMER_EXPIRES_S: Final = 30.0
_NO_ROOM: Final = frozenset({10023, 10047})
"""`err_code` of a write beyond the storage of the server or account. Source: nats-server, `server/errors.json`."""
_NO_ROOM_TEXTS: Final = ("no space left on device", "maximum bytes exceeded")
"""Parts of descriptions without a code of their own: a full disk, and a full stream that drops nothing, such as that of
an object store."""


@asynccontextmanager
async def jetstream_call(action: str, timeout_s: float = _TIMEOUT_S) -> AsyncGenerator[None]:
    """Give the calls inside a deadline, and raise their errors as errors of the contract.

    `action` completes the message "Could not …", for example "put a.zip into skills".

    Raises:
        RequestError: `not_found` for a missing bucket or object, `storage_full`, `deadline_exceeded`, or `unavailable`.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (ObjectNotFoundError, BucketNotFoundError) as error:
        raise RequestError(ErrorCode.NOT_FOUND, f"Could not {action}: it does not exist.") from error
    except TimeoutError as error:
        raise RequestError(ErrorCode.DEADLINE_EXCEEDED, f"Could not {action} in time.") from error
    except NatsError as error:
        raise translate_error(error, action) from error


def translate_error(error: NatsError, action: str) -> RequestError:
    """Return the error of the contract for an error of JetStream: `storage_full` or `unavailable`."""
    if isinstance(error, APIError):
        description = error.description or ""
        if error.err_code in _NO_ROOM or any(text in description for text in _NO_ROOM_TEXTS):
            return RequestError(
                ErrorCode.STORAGE_FULL, f"Could not {action}: JetStream has no room for it ({description})."
            )
    return RequestError(ErrorCode.UNAVAILABLE, f"Could not {action}: {error!r}")


async def check_jetstream(client: Client, api: str = "$JS.API") -> HealthCheck:
    """Check that every stream of skillbus stores messages. The audit log is not tried: it cannot be purged."""
    try:
        async with jetstream_call("reach JetStream", _CHECK_TIMEOUT_S):
            closed = await find_closed_streams(client, PURGEABLE_STREAMS, api)
    except RequestError as error:
        return HealthCheck(name="jetstream", ready=False, detail=error.message)
    detail = "; ".join(f"stream {stream} is closed until nats-server restarts: {why}" for stream, why in closed.items())
    return HealthCheck(name="jetstream", ready=not closed, detail=detail)


async def iterate_last_values(jetstream: JetStreamContext, stream: str, subjects: str) -> AsyncIterator[Msg]:
    """Yield the last message of each subject that matches `subjects`, in stream order. Raises NatsError.

    These are the current entries of a key-value bucket or an object store. They are read through a temporary consumer:
    the watches of nats-py can report an empty bucket before the first message arrives.
    """
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
        ack_policy=AckPolicy.NONE,
        inactive_threshold=_CONSUMER_EXPIRES_S,
        mem_storage=True,  # so that a full disk does not keep anybody from reading
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
