"""Provisioning of the streams, consumers and buckets that skillbus needs. Repeating it changes nothing."""

import asyncio
from typing import Final

import structlog
from nats.errors import NoRespondersError
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, ObjectStoreConfig, StreamConfig
from nats.js.errors import APIError, BucketNotFoundError, NotFoundError, ServiceUnavailableError

from skillbus.common.bus.events import consumer_config
from skillbus.contracts import resources
from skillbus.contracts.resources import KeyValueBucket, ObjectBucket, Stream

_NOT_CLUSTERED: Final = 10074
"""`err_code` of several copies on a server that is in no cluster. Source: nats-server, `server/errors.json`."""
_NO_PEERS: Final = 10005
"""`err_code` of more copies than the cluster has servers now. Source: as above."""
_RETRY_S: Final = 0.25

log = structlog.get_logger(__name__)


class ProvisionError(Exception):
    """The servers cannot hold what skillbus needs; the message says what to do about it."""

    def __init__(self, message: str, *, may_pass: bool) -> None:
        """`may_pass` is true if servers that still start may change it."""
        super().__init__(message)
        self.may_pass = may_pass


async def provision(jetstream: JetStreamContext, *, replicas: int = 1) -> None:
    """Create missing resources, and update existing ones to the declared configuration and number of copies.

    `jetstream` belongs to a user who may create streams. `replicas` is the number of copies of each; 3 in a cluster.

    Raises:
        ProvisionError: There are not so many servers.
    """
    try:
        for stream in resources.STREAMS:
            await _provision_stream(jetstream, stream, replicas)
        for bucket in resources.OBJECT_BUCKETS:
            await _provision_objects(jetstream, bucket, replicas)
        for keys in resources.KEY_VALUE_BUCKETS:
            await _provision_keys(jetstream, keys, replicas)
    except APIError as error:
        if error.err_code not in (_NOT_CLUSTERED, _NO_PEERS):
            raise
        raise ProvisionError(
            f"SKILLBUS_NATS_REPLICAS={replicas} needs a NATS cluster of at least {replicas} servers with JetStream "
            f"({error.description}): set 1 for a single server",
            may_pass=error.err_code == _NO_PEERS,
        ) from error
    for consumer in resources.CONSUMERS:
        # add_consumer updates a durable consumer in place; FastStream would not change an existing one.
        await jetstream.add_consumer(consumer.stream, consumer_config(consumer))


async def provision_within(jetstream: JetStreamContext, timeout_s: float, *, replicas: int) -> None:
    """Provision as soon as JetStream answers: a cluster that has just started elects its leaders first.

    Raises:
        ProvisionError: There are not so many servers.
        NatsError: JetStream does not answer in that time, or refuses.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout_s
    is_waiting = False
    while True:
        try:
            return await provision(jetstream, replicas=replicas)
        except (ProvisionError, NoRespondersError, ServiceUnavailableError, TimeoutError) as error:
            if loop.time() + _RETRY_S > until or (isinstance(error, ProvisionError) and not error.may_pass):
                raise
            if not is_waiting:
                log.warning("waiting_for_jetstream", reason=str(error) or repr(error))
            is_waiting = True
        await asyncio.sleep(_RETRY_S)


async def _provision_stream(jetstream: JetStreamContext, stream: Stream, replicas: int) -> None:
    config = StreamConfig(
        name=stream.name,
        subjects=list(stream.subjects),
        max_age=stream.max_age_s,
        max_bytes=stream.max_bytes,
        max_msgs=stream.max_messages,
        max_msgs_per_subject=stream.messages_of_a_subject,
        deny_delete=stream.append_only,
        deny_purge=stream.append_only,
        duplicate_window=stream.duplicate_window_s,
        num_replicas=replicas,
    )
    try:
        await jetstream.update_stream(config)
    except NotFoundError:
        await jetstream.add_stream(config)


async def _provision_objects(jetstream: JetStreamContext, bucket: ObjectBucket, replicas: int) -> None:
    try:
        await jetstream.object_store(bucket.name)
    except (BucketNotFoundError, NotFoundError):
        store = ObjectStoreConfig(ttl=bucket.ttl_s or None, max_bytes=bucket.max_bytes, replicas=replicas)
        await jetstream.create_object_store(bucket.name, config=store)
    else:
        await _set_replicas(jetstream, bucket.stream, replicas)


async def _provision_keys(jetstream: JetStreamContext, keys: KeyValueBucket, replicas: int) -> None:
    try:
        await jetstream.key_value(keys.name)
    except (BucketNotFoundError, NotFoundError):
        config = KeyValueConfig(bucket=keys.name, history=keys.history, ttl=keys.ttl_s or None, replicas=replicas)
        await jetstream.create_key_value(config)
    else:
        await _set_replicas(jetstream, keys.stream, replicas)


async def _set_replicas(jetstream: JetStreamContext, stream: str, replicas: int) -> None:
    config = (await jetstream.stream_info(stream)).config
    if config.num_replicas != replicas:
        await jetstream.update_stream(config.evolve(num_replicas=replicas))
