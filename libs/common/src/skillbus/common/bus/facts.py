"""Publishing facts: the stream has them, or the publisher knows that it has not."""

import asyncio
import re
import time
from typing import Final, TypeVar

import structlog
from nats.errors import Error as NatsError

from skillbus.common.bus import headers as h
from skillbus.common.bus.codec import encode
from skillbus.common.bus.connection import Bus
from skillbus.contracts.endpoint import Event
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import JSON, Message
from skillbus.contracts.resources import EVENTS

FactT = TypeVar("FactT", bound=Message)

_ACK_TIMEOUT_S: Final = 5.0
_RETRY_EVERY_S: Final = 0.5
_GIVE_UP_AFTER_S: Final = 30.0
_TOKEN: Final = re.compile(r"[^A-Za-z0-9_-]+")

log = structlog.get_logger(__name__)


async def publish_fact(
    bus: Bus, event: Event[FactT], body: FactT, *, identity: str, message_id: str, project: str
) -> None:
    """Publish a fact and wait until the stream has it.

    It is tried again for 30 s with the same `message_id`, by which the stream tells a repetition from a new fact.

    Args:
        bus: The bus.
        event: What kind of fact.
        body: The fact.
        identity: Of what it is about; becomes the last token of the subject.
        message_id: The same for each try of the same fact.
        project: Whose it is; for consumers that filter before they decode.

    Raises:
        RequestError: `unavailable` when the stream did not take it in time.
    """
    subject = event.subject(_TOKEN.sub("_", identity) or "_")
    headers = {h.MESSAGE_ID: message_id, h.CONTENT_TYPE: JSON, h.PROJECT: project}
    if trace := h.traceparent.get():
        headers[h.TRACEPARENT] = trace
    give_up = time.monotonic() + _GIVE_UP_AFTER_S
    while True:
        try:
            await bus.jetstream.publish(
                subject, encode(body), timeout=_ACK_TIMEOUT_S, stream=EVENTS.name, headers=headers
            )
        except (NatsError, TimeoutError) as error:
            if time.monotonic() >= give_up:
                raise RequestError(ErrorCode.UNAVAILABLE, f"The stream did not take {subject}: {error!r}") from error
            log.warning("fact_not_taken_yet", subject=subject, error=repr(error))
            await asyncio.sleep(_RETRY_EVERY_S)
        else:
            return
