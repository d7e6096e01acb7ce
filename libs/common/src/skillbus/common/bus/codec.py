"""Messages as bytes: JSON by default, msgpack for those who ask by content type."""

from typing import Final, TypeVar

import ormsgpack
from pydantic import ValidationError

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import JSON, MSGPACK, Message

MessageT = TypeVar("MessageT", bound=Message)

_FIELD_CHARACTERS: Final = 200
"""Of the place of an error, which has keys of the request in it."""


def encode(message: Message, content_type: str = JSON) -> bytes:
    """The bytes of a message."""
    if content_type == MSGPACK:
        return ormsgpack.packb(message.model_dump(), default=str)
    return message.model_dump_json().encode()


def decode(kind: type[MessageT], data: bytes, content_type: str = JSON) -> MessageT:
    """A message from bytes. No bytes at all are an empty object.

    Raises:
        RequestError: `invalid_request`, with one entry in `details["fields"]` for each thing that is wrong.
    """
    try:
        if content_type == MSGPACK:
            return kind.model_validate(ormsgpack.unpackb(data))
        return kind.model_validate_json(data or b"{}")
    except ValidationError as error:
        raise invalid_request(error) from error
    except ValueError as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"The body is not {content_type}: {error}") from error


def invalid_request(error: ValidationError) -> RequestError:
    """A validation error as callers get it: which fields, what is wrong with them, and never the value itself."""
    fields = [
        {"field": ".".join(str(part) for part in item["loc"])[:_FIELD_CHARACTERS] or "body", "problem": item["msg"]}
        for item in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    said = "; ".join(f"{item['field']}: {item['problem']}" for item in fields[:5])
    return RequestError(ErrorCode.INVALID_REQUEST, said, details={"fields": [dict(item) for item in fields[:50]]})
