"""Reading of a sentence, and the function that each language has for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.queryir.home import Home
from skillbus.queryir.writing import FoldedText

Language = Literal["zh", "en"]

OWN_ROOM_DOUBT: Final = 0.5
"""Confidence that "my room" costs where nobody knows which room that is."""


class SpeakerPlace(StrEnum):
    """Place that a sentence names by its speaker."""

    HERE = "here"
    """The room of the speaker: `in here`, 这个房间. It limits nothing where that room is not known."""
    OWN_ROOM = "own_room"
    """`My room`, 我房间."""


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """Commands of a sentence, in its order."""

    language: Language
    queries: tuple[QueryIR, ...] = ()
    """Empty if the sentence is no command. The confidence of a query is 1, less what stayed unread, was guessed, or is
    missing."""
    unread: tuple[str, ...] = ()
    """Parts of the sentence that nobody understood, in their original spelling."""
    place: SpeakerPlace | None = None
    """Place of the speaker, if the sentence names it."""


SentenceReader = Callable[[FoldedText, Home | None], ParsedSentence]
"""Grammar of a language: `read_sentence` of `skillbus.queryir.chinese` and `skillbus.queryir.english`. It accepts any
text, never raises, and takes time in proportion to the length of the text."""


def place_speaker(queries: Sequence[QueryIR], place: SpeakerPlace | None, room: str | None) -> tuple[QueryIR, ...]:
    """Return the queries of a sentence that names the place of a speaker who is in a room: it limits those that name
    no room, no device and nothing that was mentioned."""
    if place is None or room is None:
        return tuple(queries)
    return tuple(_limit_query(query, place, room) for query in queries)


def _limit_query(query: QueryIR, place: SpeakerPlace, room: str) -> QueryIR:
    if query.name_hint or query.scope_include or query.references:
        return query
    doubt = OWN_ROOM_DOUBT if place is SpeakerPlace.OWN_ROOM else 0.0
    confidence = round(min(1.0, query.confidence + doubt), 2)
    return query.model_copy(update={"scope_include": (room,), "confidence": confidence})
