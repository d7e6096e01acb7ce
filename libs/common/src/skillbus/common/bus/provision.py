"""Provisioning of the streams, consumers and buckets that skillbus needs. Repeating it changes nothing."""

from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, ObjectStoreConfig, StreamConfig
from nats.js.errors import BucketNotFoundError, NotFoundError

from skillbus.common.bus.events import consumer_config
from skillbus.contracts import resources
from skillbus.contracts.resources import Stream


async def provision(jetstream: JetStreamContext, *, replicas: int = 1) -> None:
    """Create missing resources, and update existing streams and consumers to the declared configuration.

    `jetstream` belongs to a user who may create streams. `replicas` is the number of copies of each; 3 in a cluster.
    """
    for stream in resources.STREAMS:
        await _provision_stream(jetstream, stream, replicas)
    for bucket in resources.OBJECT_BUCKETS:
        try:
            await jetstream.object_store(bucket.name)
        except (BucketNotFoundError, NotFoundError):
            store = ObjectStoreConfig(ttl=bucket.ttl_s or None, max_bytes=bucket.max_bytes, replicas=replicas)
            await jetstream.create_object_store(bucket.name, config=store)
    for keys in resources.KEY_VALUE_BUCKETS:
        try:
            await jetstream.key_value(keys.name)
        except (BucketNotFoundError, NotFoundError):
            config = KeyValueConfig(bucket=keys.name, history=keys.history, ttl=keys.ttl_s or None, replicas=replicas)
            await jetstream.create_key_value(config)
    for consumer in resources.CONSUMERS:
        # add_consumer updates a durable consumer in place; FastStream would not change an existing one.
        await jetstream.add_consumer(consumer.stream, consumer_config(consumer))


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
