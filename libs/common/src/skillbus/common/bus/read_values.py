"""Many values of a key-value bucket by their keys, in one flight of requests.

Asked of the leader of the stream, as one value is, so that who has written sees it; a direct get, of many at once too,
may be answered by a copy that does not have it yet. Headers are looked at and not parsed: with the reply of each in a
future of its own, nats-py needs 0.25 ms a value, most of it for the headers.
"""

import asyncio
import binascii
from collections.abc import Sequence
from typing import Final, NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.js.errors import APIError
from pydantic_core import from_json, to_json

_AT_ONCE: Final = 64
"""Requests under way: the server answers them in turn, and lets other calls of its API in between."""
_NOT_FOUND: Final = 10037
"""`err_code` of a subject without a message. Source: nats-server, `server/errors.json`."""
_REMOVED: Final = (b"KV-Operation: DEL", b"KV-Operation: PURGE")


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
    found = list[Value | None]()
    for at in range(0, len(keys), _AT_ONCE):
        found += await _read(client, bucket, keys[at : at + _AT_ONCE])
    return found


async def _read(client: Client, bucket: str, keys: Sequence[str]) -> list[Value | None]:
    replies: dict[int, Msg] = {}
    whole = asyncio.get_running_loop().create_future()

    async def keep(reply: Msg) -> None:
        replies[int(reply.subject.rpartition(".")[2])] = reply
        if len(replies) == len(keys) and not whole.done():
            whole.set_result(None)

    inbox = client.new_inbox()
    subscription = await client.subscribe(f"{inbox}.*", cb=keep)
    try:
        for number, key in enumerate(keys):
            wanted = to_json({"last_by_subj": f"$KV.{bucket}.{key}"})
            await client.publish(f"$JS.API.STREAM.MSG.GET.KV_{bucket}", wanted, reply=f"{inbox}.{number}")
        await whole
    finally:
        await subscription.unsubscribe()
    return [_value(replies[number]) for number in range(len(keys))]


def _value(reply: Msg) -> Value | None:
    if (reply.headers or {}).get("Status") == "503":
        raise NoRespondersError
    answer = from_json(reply.data)
    if "error" in answer:
        if answer["error"].get("err_code") == _NOT_FOUND:
            return None
        raise APIError.from_error(answer["error"])
    message = answer["message"]
    headers = _decoded(message.get("hdrs"))
    removed = any(operation in headers for operation in _REMOVED)
    return Value(None if removed else _decoded(message.get("data")), int(message["seq"]))


def _decoded(text: str | None) -> bytes:
    return binascii.a2b_base64(text) if text else b""
