"""Many reads or writes of JetStream at once: values of a key-value bucket, or messages of a stream.

All requests share one inbox. A request of nats-py costs a random token, a future and a deadline: 0.2 ms each, several
times the rest of the work. For the same reason headers are searched and not parsed.

Reads go to the leader of the stream, so that a writer sees its own writes; a direct get, also of many keys, may be
answered by a copy that lacks them. Call these functions with a deadline around them. `api` is the prefix of the
JetStream API: `Bus.jetstream_api`.
"""

import asyncio
import binascii
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.js.api import Header
from nats.js.errors import APIError
from pydantic_core import from_json, to_json

_NO_RESPONDERS: Final = "503"
_READS_AT_ONCE: Final = 64
"""The server answers reads in turn; after so many it lets other API calls in."""
_NOT_FOUND: Final = frozenset({10037})
"""`err_code` of a subject without a message. Source: nats-server, `server/errors.json`."""
_WRONG_LAST_SEQUENCE: Final = frozenset({10071, 10164})
"""`err_code` of a write to a subject that has another last sequence. Source: nats-server, `server/errors.json`."""
_CANNOT_TELL: Final = frozenset({10059, 10110})
"""`err_code` of a purge of a stream that does not exist or allows none. Source: nats-server, `server/errors.json`."""
_UNUSED_SUBJECT: Final = "skillbus-write-check"
_DELETED: Final = (b"KV-Operation: DEL", b"KV-Operation: PURGE")


class StreamMessage(NamedTuple):
    """A message of a stream."""

    subject: str
    data: bytes
    sequence: int


class KvValue(NamedTuple):
    """The last entry of a key."""

    data: bytes | None
    """None if the key was deleted."""
    revision: int


class KvWrite(NamedTuple):
    """A value to write over `revision`; 0 if the key has no value."""

    key: str
    data: bytes
    revision: int
    headers: Mapping[str, str] | None = None


class BatchRequest(NamedTuple):
    """One request of a batch."""

    subject: str
    body: bytes
    headers: Mapping[str, str] | None = None


async def read_values(client: Client, bucket: str, keys: Sequence[str], api: str = "$JS.API") -> list[KvValue | None]:
    """Return the last entry of each key; None for a key that never had one.

    A key with wildcards has the last entry of all keys that match it.

    Raises:
        NatsError: JetStream does not answer, or answers with an error.
    """
    queries = [to_json({"last_by_subj": f"$KV.{bucket}.{key}"}) for key in keys]
    values: list[KvValue | None] = []
    for message in await _get_messages(client, api, f"KV_{bucket}", queries):
        if message is None:
            values.append(None)
            continue
        headers = _decode_base64(message.get("hdrs"))
        deleted = any(operation in headers for operation in _DELETED)
        values.append(KvValue(None if deleted else _decode_base64(message.get("data")), int(message["seq"])))
    return values


async def read_messages(
    client: Client, stream: str, sequences: Sequence[int], api: str = "$JS.API"
) -> list[StreamMessage | None]:
    """Return the messages of a stream with these sequence numbers; None for those that do not exist.

    Raises:
        NatsError: JetStream does not answer, or answers with an error.
    """
    queries = [to_json({"seq": sequence}) for sequence in sequences]
    return [
        StreamMessage(message["subject"], _decode_base64(message.get("data")), int(message["seq"])) if message else None
        for message in await _get_messages(client, api, stream, queries)
    ]


async def write_values(client: Client, bucket: str, writes: Sequence[KvWrite]) -> list[int | None]:
    """Write values and return their revisions; None for keys that are not at the expected revision.

    After an error some of them may have been written.

    Raises:
        NatsError: JetStream does not answer, or answers with another error.
    """
    requests = [
        BatchRequest(
            f"$KV.{bucket}.{write.key}",
            write.data,
            {**(write.headers or {}), Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(write.revision)},
        )
        for write in writes
    ]
    return [
        None if (answer := _parse_answer(reply, _WRONG_LAST_SEQUENCE)) is None else int(answer["seq"])
        for reply in await send_batch(client, requests)
    ]


async def find_closed_streams(client: Client, streams: Sequence[str], api: str = "$JS.API") -> dict[str, str]:
    """Return the streams that store nothing until their server is restarted, each with the reason.

    After a failed write, on a full disk for example, the server refuses all writes to the stream, without a reply, and
    still answers reads. A purge of a subject without messages shows that, and changes nothing. Streams that cannot be
    purged, such as the audit log, are never returned: other streams of a full disk are.

    Raises:
        NatsError: JetStream does not answer.
    """
    query = to_json({"filter": _UNUSED_SUBJECT})
    replies = await send_batch(client, [BatchRequest(f"{api}.STREAM.PURGE.{stream}", query) for stream in streams])
    closed = {}
    for stream, reply in zip(streams, replies, strict=True):
        try:
            _parse_answer(reply, _CANNOT_TELL)
        except APIError as error:
            closed[stream] = str(error.description)
    return closed


async def send_batch(client: Client, requests: Iterable[BatchRequest]) -> list[Msg]:
    """Send all requests and return their replies in the same order.

    Raises:
        NatsError: Nobody answers one of them, or the connection is down; others may have been handled.
    """
    sent = list(requests)
    replies: dict[int, Msg] = {}
    all_answered = asyncio.get_running_loop().create_future()

    async def on_reply(reply: Msg) -> None:
        replies[int(reply.subject.rpartition(".")[2])] = reply
        if len(replies) == len(sent) and not all_answered.done():
            all_answered.set_result(None)

    if not sent:
        return []
    inbox = client.new_inbox()
    subscription = await client.subscribe(f"{inbox}.*", cb=on_reply)
    try:
        for number, request in enumerate(sent):
            headers = dict(request.headers) if request.headers else None
            await client.publish(request.subject, request.body, reply=f"{inbox}.{number}", headers=headers)
        await all_answered
    finally:
        await subscription.unsubscribe()
    if any((reply.headers or {}).get("Status") == _NO_RESPONDERS for reply in replies.values()):
        raise NoRespondersError
    return [replies[number] for number in range(len(sent))]


async def _get_messages(client: Client, api: str, stream: str, queries: Sequence[bytes]) -> list[dict[str, str] | None]:
    subject = f"{api}.STREAM.MSG.GET.{stream}"
    messages: list[dict[str, str] | None] = []
    for at in range(0, len(queries), _READS_AT_ONCE):
        portion = queries[at : at + _READS_AT_ONCE]
        replies = await send_batch(client, [BatchRequest(subject, query) for query in portion])
        for reply in replies:
            answer = _parse_answer(reply, _NOT_FOUND)
            messages.append(None if answer is None else answer["message"])
    return messages


def _parse_answer(reply: Msg, expected_errors: Collection[int]) -> dict[str, Any] | None:
    """Return an answer of JetStream; None for an expected error. Raises APIError for others."""
    answer: dict[str, Any] = from_json(reply.data)
    if "error" not in answer:
        return answer
    if answer["error"].get("err_code") in expected_errors:
        return None
    raise APIError.from_error(answer["error"])


def _decode_base64(text: str | None) -> bytes:
    return binascii.a2b_base64(text) if text else b""
