"""Options as the fields of a request, checked by its contract before anything is sent."""

from collections.abc import Mapping
from typing import Final, TypeVar

import typer
from pydantic import BaseModel, ValidationError

RequestT = TypeVar("RequestT", bound=BaseModel)

_OPTIONS: Final = {
    "id": "MODEL",
    "name": "NAME",
    "provider": "PROVIDER",
    "timeout_s": "--timeout",
    "max_concurrency": "--concurrency",
    "max_batch_texts": "--batch-texts",
    "is_default": "--default",
    "headers": "--header",
    "command": "COMMAND",
    "args": "ARGS",
}
"""Where a field has not the name of its option."""


def request_of(kind: type[RequestT], fields: Mapping[str, object], options: Mapping[str, str] = _OPTIONS) -> RequestT:
    """The request with those fields that are given. What is wrong with one never shows its value: it may be a key.

    `options` says what the option of a field is called where it is not called like the field.

    Raises:
        typer.BadParameter: It is against the contract.
    """
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = str(first["loc"][0])
        hint = options.get(field, f"--{field.replace('_', '-')}")
        raise typer.BadParameter(first["msg"].removeprefix("Value error, "), param_hint=hint) from None
