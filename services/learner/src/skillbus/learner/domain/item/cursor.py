"""Places in lists as words that callers hand back, and lists that fit a message."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn, TypeVar

from skillbus.contracts.message import Message
from skillbus.learner.domain.errors import UnfitError
from skillbus.learner.domain.item.ports import Place
from skillbus.learner.domain.message_size import MESSAGE_BYTES

MessageT = TypeVar("MessageT", bound=Message)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_WORD: Final = re.compile(r"(-?[0-9]{1,18})\.([A-Za-z0-9-]{1,64})")


def written(place: Place) -> str:
    """As a word: microseconds since 1970, and the id."""
    return f"{(place.updated_at - _EPOCH) // _MICROSECOND}.{place.item}"


def read(word: str | None) -> Place | None:
    """The place that `written` made a word of. Raises UnfitError."""
    if word is None:
        return None
    fits = _WORD.fullmatch(word)
    try:
        return Place(_EPOCH + int(fits[1]) * _MICROSECOND, fits[2]) if fits else _unfit()
    except OverflowError:
        return _unfit()


def _unfit() -> NoReturn:
    raise UnfitError("`after` is no `next` of a page before: send that, or nothing for the first page")


def fitting(messages: Sequence[MessageT]) -> Sequence[MessageT]:
    """As many of the first as fit one message of the bus, and one at least."""
    used = 0
    for count, message in enumerate(messages):
        used += len(message.model_dump_json()) + 1
        if used > MESSAGE_BYTES and count:
            return messages[:count]
    return messages
