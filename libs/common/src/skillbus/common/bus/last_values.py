"""The last message of every subject of a stream: what a key-value bucket or an object store holds now.

Read through a consumer of its own: the watches of nats-py, and what it builds on them, can say that there is nothing
before the first message arrives.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

_FETCH: Final = 256
_FETCH_TIMEOUT_S: Final = 1.0
_FORGOTTEN_AFTER_S: Final = 30.0


async def last_values(jetstream: JetStreamContext, stream: str, subjects: str) -> AsyncIterator[Msg]:
    """The last message of each subject that fits `subjects`, in the order of the stream. Raises NatsError."""
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
        ack_policy=AckPolicy.NONE,
        inactive_threshold=_FORGOTTEN_AFTER_S,
    )
    consumer = await jetstream.pull_subscribe(subjects, stream=stream, config=config)
    try:
        while waiting := (await consumer.consumer_info()).num_pending or 0:
            # What is written anew meanwhile is pending no longer: the fetch then waits in vain, and is asked again.
            with suppress(TimeoutError):
                for message in await consumer.fetch(min(waiting, _FETCH), timeout=_FETCH_TIMEOUT_S):
                    yield message
    finally:
        await consumer.unsubscribe()
