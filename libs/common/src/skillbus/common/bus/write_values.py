"""Many values of a key-value bucket in one flight of requests, each only over what its writer has seen."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import Header
from nats.js.errors import APIError
from pydantic_core import from_json

from skillbus.common.bus.flight import Outgoing, in_one_flight

_WRITTEN_SINCE: Final = frozenset({10071, 10164})
"""`err_code` of a subject that is at another sequence. Source: nats-server, `server/errors.json`."""


class Write(NamedTuple):
    """A value to be written."""

    key: str
    data: bytes
    over: int
    """The revision that the write is based on; 0 if the key had no value."""
    headers: Mapping[str, str] | None = None


async def write_values(client: Client, bucket: str, writes: Sequence[Write]) -> list[int | None]:
    """Write each that nobody else has written since, and give its revision; None of those that somebody has.

    To be called with a deadline around it. What raises may have written some of them.

    Raises:
        NatsError: When JetStream does not answer, or answers with another error.
    """
    replies = await in_one_flight(client, [_request(bucket, write) for write in writes])
    return [_revision(reply) for reply in replies]


def _request(bucket: str, write: Write) -> Outgoing:
    headers = {**(write.headers or {}), Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(write.over)}
    return Outgoing(f"$KV.{bucket}.{write.key}", write.data, headers)


def _revision(reply: Msg) -> int | None:
    answer = from_json(reply.data)
    if "error" not in answer:
        return int(answer["seq"])
    if answer["error"].get("err_code") in _WRITTEN_SINCE:
        return None
    raise APIError.from_error(answer["error"])
