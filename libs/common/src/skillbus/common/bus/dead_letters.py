"""Dead letters: what could not be dealt with, to be looked at and published again."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from nats.js.api import RawStreamMsg
from nats.js.errors import NotFoundError

from skillbus.common.bus import headers as h
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import ERROR_HEADER, SUBJECT_HEADER
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.resources import DEAD_LETTERS


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a consumer gave up on."""

    sequence: int
    """Its place in the stream of dead letters; what `replay` takes."""
    consumer: str
    subject: str
    error: str
    body: bytes


async def list_dead_letters(bus: Bus, limit: int = 100) -> Sequence[DeadLetter]:
    """The oldest `limit` dead letters, oldest first."""
    state = (await bus.jetstream.stream_info(DEAD_LETTERS.name)).state
    letters: list[DeadLetter] = []
    sequence = max(state.first_seq, 1)  # 0 when the stream was never written to
    while sequence <= state.last_seq and len(letters) < limit:
        with suppress(NotFoundError):  # replayed ones leave gaps
            letters.append(_letter(await bus.jetstream.get_msg(DEAD_LETTERS.name, sequence)))
        sequence += 1
    return letters


async def replay(bus: Bus, sequence: int) -> None:
    """Publish a dead letter where it came from, and take it out of the stream.

    Raises:
        RequestError: `not_found` when there is no dead letter of that sequence.
    """
    try:
        message = await bus.jetstream.get_msg(DEAD_LETTERS.name, sequence)
    except NotFoundError as error:
        raise RequestError(ErrorCode.NOT_FOUND, f"There is no dead letter {sequence}.") from error
    letter = _letter(message)
    headers = {h.MESSAGE_ID: f"replay:{DEAD_LETTERS.name}:{sequence}"}
    await bus.jetstream.publish(letter.subject, letter.body, timeout=5, headers=headers)
    await bus.jetstream.delete_msg(DEAD_LETTERS.name, sequence)


def _letter(message: RawStreamMsg) -> DeadLetter:
    headers = message.headers or {}
    return DeadLetter(
        sequence=message.seq or 0,
        consumer=(message.subject or "").removeprefix("skillbus.dlq."),
        subject=headers.get(SUBJECT_HEADER, ""),
        error=headers.get(ERROR_HEADER, ""),
        body=message.data or b"",
    )
