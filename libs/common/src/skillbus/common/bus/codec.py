"""Encoding of messages: JSON by default, msgpack if the content type says so."""

from typing import Final, TypeVar

import ormsgpack
from pydantic import JsonValue, ValidationError

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import JSON, MSGPACK, Message
from skillbus.contracts.validation import describe_problems, list_problems

MessageT = TypeVar("MessageT", bound=Message)

_FIELDS_LISTED: Final = 50


def encode(message: Message, content_type: str = JSON) -> bytes:
    """Return the bytes of a message."""
    if content_type == MSGPACK:
        return ormsgpack.packb(message.model_dump(), default=str)
    return message.model_dump_json().encode()


def decode(kind: type[MessageT], data: bytes, content_type: str = JSON) -> MessageT:
    """Parse a message. An empty body counts as an empty object.

    Raises:
        RequestError: `invalid_request`, with one entry in `details["fields"]` for each problem.
    """
    if content_type not in {JSON, MSGPACK}:
        content_type = content_type.partition(";")[0].strip().lower()
    try:
        if content_type == MSGPACK:
            return kind.model_validate(ormsgpack.unpackb(data))
        if content_type != JSON:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, f"The content type is not supported: send {JSON} or {MSGPACK}."
            )
        return kind.model_validate_json(data or b"{}")
    except ValidationError as error:
        raise invalid_request(error) from error
    except ValueError as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"The body is not {content_type}: {error}") from error


def invalid_request(error: ValidationError) -> RequestError:
    """Return a validation error as callers see it: which fields are wrong and why, never the rejected values."""
    fields: list[JsonValue] = [
        {"field": field or "body", "problem": problem} for field, problem in list_problems(error)[:_FIELDS_LISTED]
    ]
    return RequestError(ErrorCode.INVALID_REQUEST, describe_problems(error), details={"fields": fields})
