"""Many messages of a stream in one flight of requests: values of a key-value bucket by their keys, or by numbers.

Asked of the leader of the stream, as one value is, so that who has written sees it; a direct get, of many at once too,
may be answered by a copy that does not have it yet. Headers are looked at and not parsed: that is most of what nats-py
needs for a value.
"""

import binascii
from collections.abc import Sequence
from typing import Final, NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import APIError
from pydantic_core import from_json, to_json

from skillbus.common.bus.flight import Outgoing, in_one_flight

_AT_ONCE: Final = 64
"""Requests under way: the server answers them in turn, and lets other calls of its API in between."""
_NOT_FOUND: Final = 10037
"""`err_code` of a subject without a message. Source: nats-server, `server/errors.json`."""
_REMOVED: Final = (b"KV-Operation: DEL", b"KV-Operation: PURGE")


class Stored(NamedTuple):
    """A message of a stream."""

    subject: str
    data: bytes
    sequence: int


class Value(NamedTuple):
    """The last entry of a key."""

    data: bytes | None
    """None when the key was deleted."""
    revision: int


async def read_values(client: Client, bucket: str, keys: Sequence[str]) -> list[Value | None]:
    """The last entry of each key, None of one that never had any. To be called with a deadline around it.

    Raises:
        NatsError: When JetStream does not answer, or answers with an error.
    """
    wanted = [to_json({"last_by_subj": f"$KV.{bucket}.{key}"}) for key in keys]
    return [_value(reply) for reply in await _asked(client, f"KV_{bucket}", wanted)]


async def read_sequences(client: Client, stream: str, sequences: Sequence[int]) -> list[Stored | None]:
    """The messages of a stream that have these numbers, None where there is none. To be called with a deadline.

    Raises:
        NatsError: When JetStream does not answer, or answers with an error.
    """
    wanted = [to_json({"seq": sequence}) for sequence in sequences]
    return [_stored(reply) for reply in await _asked(client, stream, wanted)]


async def _asked(client: Client, stream: str, wanted: Sequence[bytes]) -> list[Msg]:
    replies = list[Msg]()
    subject = f"$JS.API.STREAM.MSG.GET.{stream}"
    for at in range(0, len(wanted), _AT_ONCE):
        replies += await in_one_flight(client, [Outgoing(subject, one) for one in wanted[at : at + _AT_ONCE]])
    return replies


def _value(reply: Msg) -> Value | None:
    message = _message(reply)
    if message is None:
        return None
    headers = _decoded(message.get("hdrs"))
    removed = any(operation in headers for operation in _REMOVED)
    return Value(None if removed else _decoded(message.get("data")), int(message["seq"]))


def _stored(reply: Msg) -> Stored | None:
    message = _message(reply)
    if message is None:
        return None
    return Stored(message["subject"], _decoded(message.get("data")), int(message["seq"]))


def _message(reply: Msg) -> dict[str, str] | None:
    answer = from_json(reply.data)
    if "error" not in answer:
        message: dict[str, str] = answer["message"]
        return message
    if answer["error"].get("err_code") == _NOT_FOUND:
        return None
    raise APIError.from_error(answer["error"])


def _decoded(text: str | None) -> bytes:
    return binascii.a2b_base64(text) if text else b""
