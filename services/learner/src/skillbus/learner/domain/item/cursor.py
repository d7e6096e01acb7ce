"""Cursors: positions in a list as text that callers send back."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

from skillbus.learner.domain.errors import UnfitError
from skillbus.learner.domain.item.ports import ListPosition

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_CURSOR: Final = re.compile(r"(-?[0-9]{1,18})\.([A-Za-z0-9-]{1,64})")


def encode_cursor(position: ListPosition) -> str:
    """Return the position as microseconds since 1970 and the id."""
    return f"{(position.updated_at - _EPOCH) // _MICROSECOND}.{position.item}"


def decode_cursor(cursor: str | None) -> ListPosition | None:
    """Return the position that `encode_cursor` encoded. Raises UnfitError."""
    if cursor is None:
        return None
    parts = _CURSOR.fullmatch(cursor)
    try:
        return ListPosition(_EPOCH + int(parts[1]) * _MICROSECOND, parts[2]) if parts else _refuse()
    except OverflowError:
        return _refuse()


def _refuse() -> NoReturn:
    raise UnfitError("`after` is not the `next` of an earlier page: send that, or nothing for the first page")
