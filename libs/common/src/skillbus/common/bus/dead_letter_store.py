"""Dead letters: list, show, replay and drop the events that consumers gave up on."""

from typing import Final

from nats.js.api import Header, RawStreamMsg
from nats.js.errors import NotFoundError

from skillbus.common.bus import headers as h
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import ERROR_HEADER, SUBJECT_HEADER
from skillbus.common.bus.jetstream import jetstream_call
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.dead_letters import (
    MAX_BODY_CHARACTERS,
    DeadLetter,
    DeadLetterDropped,
    DeadLetterReplayed,
    DeadLetterSelector,
    DeadLettersListed,
    DeadLetterSummary,
    ListDeadLetters,
)
from skillbus.contracts.resources import DEAD_LETTERS

_PREFIX: Final = "skillbus.dlq."
_OBJECT_PREFIX: Final = "$O."
_OWN_HEADERS: Final = frozenset({SUBJECT_HEADER, ERROR_HEADER})


class DeadLetters:
    """The stream of dead letters. Every method raises `RequestError` with `unavailable` when NATS does not answer."""

    def __init__(self, bus: Bus) -> None:
        self._jetstream = bus.jetstream

    async def list_page(self, request: ListDeadLetters) -> DeadLettersListed:
        """Return a page of dead letters, oldest first."""
        subjects = f"{_PREFIX}*.{request.consumer or '*'}"
        found: list[DeadLetterSummary] = []
        async with jetstream_call("list the dead letters"):
            state = (await self._jetstream.stream_info(DEAD_LETTERS.name, subjects_filter=subjects)).state
            sequence = request.after + 1
            while len(found) <= request.limit:
                try:
                    message = await self._jetstream.get_msg(DEAD_LETTERS.name, sequence, subject=subjects, next=True)
                except NotFoundError:
                    break
                found.append(_summarize(message))
                sequence = found[-1].sequence + 1
        page = tuple(found[: request.limit])
        more = len(found) > len(page)
        return DeadLettersListed(
            dead_letters=page, total=sum((state.subjects or {}).values()), next=page[-1].sequence if more else None
        )

    async def get(self, request: DeadLetterSelector) -> DeadLetter:
        """Return a dead letter with its event. Raises RequestError `not_found`."""
        message = await self._load(request.sequence)
        body = (message.data or b"").decode(errors="replace")
        return DeadLetter(
            **_summarize(message).model_dump(),
            body=body[:MAX_BODY_CHARACTERS],
            body_truncated=len(body) > MAX_BODY_CHARACTERS,
        )

    async def replay(self, request: DeadLetterSelector) -> DeadLetterReplayed:
        """Publish the event to its subject again, then delete the dead letter.

        The event gets a new message id, because the stream could drop a repetition of the original one as a
        duplicate. The id is the same for each attempt to replay one dead letter, so that repeating a replay that was
        interrupted before the deletion publishes nothing twice.

        Raises:
            RequestError: `not_found`; `conflict` if the event is about an object that was replaced or deleted since.
        """
        message = await self._load(request.sequence)
        subject = (message.headers or {}).get(SUBJECT_HEADER, "")
        headers = {
            key: value
            for key, value in (message.headers or {}).items()
            if key not in _OWN_HEADERS and not key.startswith("Nats-")
        }
        headers[h.MESSAGE_ID] = f"replay:{DEAD_LETTERS.name}:{request.sequence}"
        async with jetstream_call(f"replay the dead letter {request.sequence}"):
            if subject.startswith(_OBJECT_PREFIX):
                # The event is the record of an object itself, so an old one must not replace a newer one.
                headers[Header.ROLLUP.value] = "sub"
                headers[Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value] = str(await self._find_record(subject, message))
            await self._jetstream.publish(subject, message.data or b"", timeout=5, headers=headers)
            await self._jetstream.delete_msg(DEAD_LETTERS.name, request.sequence)
        return DeadLetterReplayed(sequence=request.sequence, subject=subject)

    async def drop(self, request: DeadLetterSelector) -> DeadLetterDropped:
        """Delete a dead letter. Raises RequestError `not_found`."""
        await self._load(request.sequence)
        async with jetstream_call(f"drop the dead letter {request.sequence}"):
            await self._jetstream.delete_msg(DEAD_LETTERS.name, request.sequence)
        return DeadLetterDropped(sequence=request.sequence)

    async def _load(self, sequence: int) -> RawStreamMsg:
        async with jetstream_call(f"read the dead letter {sequence}"):
            try:
                return await self._jetstream.get_msg(DEAD_LETTERS.name, sequence)
            except NotFoundError as error:
                raise RequestError(ErrorCode.NOT_FOUND, f"There is no dead letter {sequence}.") from error

    async def _find_record(self, subject: str, letter: RawStreamMsg) -> int:
        """Return the sequence of an object's current record if it is the one in the dead letter."""
        stream = f"OBJ_{subject.split('.')[1]}"
        try:
            current = await self._jetstream.get_last_msg(stream, subject)
        except NotFoundError:
            current = None
        if current is None or current.data != letter.data:
            raise RequestError(
                ErrorCode.CONFLICT,
                f"The object of dead letter {letter.seq} was replaced or deleted since: upload it again, and drop "
                "the dead letter.",
                retryable=False,
            )
        return current.seq or 0


def _summarize(message: RawStreamMsg) -> DeadLetterSummary:
    headers = message.headers or {}
    stream, _, consumer = (message.subject or "").removeprefix(_PREFIX).partition(".")
    return DeadLetterSummary(
        sequence=message.seq or 0,
        stream=stream,
        consumer=consumer,
        subject=headers.get(SUBJECT_HEADER, ""),
        project=headers.get(h.PROJECT),
        error=headers.get(ERROR_HEADER, ""),
        stored_at=message.time,
        size_bytes=len(message.data or b""),
    )
