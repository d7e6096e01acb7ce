"""Requests that travel together: one inbox for all of them, and their replies in their order.

A request by nats-py costs a random token, a future and a deadline of its own: 0.2 ms each, several times what is left.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

_NO_RESPONDERS = "503"


class Outgoing(NamedTuple):
    """A request."""

    subject: str
    body: bytes
    headers: Mapping[str, str] | None = None


async def in_one_flight(client: Client, requests: Iterable[Outgoing]) -> list[Msg]:
    """Send all, and wait for the reply of each. To be called with a deadline around it.

    Raises:
        NatsError: When nobody answers one of them, or the bus is not there; others may have been dealt with.
    """
    sent = list(requests)
    replies: dict[int, Msg] = {}
    whole = asyncio.get_running_loop().create_future()

    async def keep(reply: Msg) -> None:
        replies[int(reply.subject.rpartition(".")[2])] = reply
        if len(replies) == len(sent) and not whole.done():
            whole.set_result(None)

    if not sent:
        return []
    inbox = client.new_inbox()
    subscription = await client.subscribe(f"{inbox}.*", cb=keep)
    try:
        for number, one in enumerate(sent):
            headers = dict(one.headers) if one.headers else None
            await client.publish(one.subject, one.body, reply=f"{inbox}.{number}", headers=headers)
        await whole
    finally:
        await subscription.unsubscribe()
    if any((reply.headers or {}).get("Status") == _NO_RESPONDERS for reply in replies.values()):
        raise NoRespondersError
    return [replies[number] for number in range(len(sent))]
