"""Checks of arguments and options against the contracts, before anything is sent."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer
from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from skillbus.cli.completion import complete_skill
from skillbus.contracts.message import SkillName
from skillbus.contracts.validation import describe_error

RequestT = TypeVar("RequestT", bound=BaseModel)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the skill.", autocompletion=complete_skill)]
ThresholdOption = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Lowest score of a hit; 0 shows the nearest. Default: the server's."),
]

DEFAULT_OUT: Final = Path("skillbus-out")
"""Folder for the files of runs and calls."""
_SKILL_PREFIX: Final = "skill:"
_SKILL_NAME: Final[TypeAdapter[str]] = TypeAdapter(SkillName)
_OPTIONS: Final = {
    "args": "ARGS",
    "budget_tokens": "--budget",
    "command": "COMMAND",
    "headers": "--header",
    "id": "MODEL",
    "ids": "ID",
    "is_default": "--default",
    "max_batch_texts": "--batch-texts",
    "max_concurrency": "--concurrency",
    "last_mentioned": "--mentioned",
    "name": "NAME",
    "provider": "PROVIDER",
    "query": "QUERY",
    "sources": "--source",
    "stale_after_days": "--stale-after",
    "tags": "--tag",
    "text": "SENTENCE",
    "timeout_s": "--timeout",
    "tools": "--tool",
    "top_k": "--limit",
    "types": "--type",
}
"""Options with other names than their fields."""


def check_skill_name(name: str) -> str:
    """Return the name of a skill. The id that a search shows, such as `skill:greet`, is accepted too.

    Raises:
        typer.BadParameter: No skill can have this name.
    """
    name = name.removeprefix(_SKILL_PREFIX)
    try:
        return _SKILL_NAME.validate_python(name)
    except ValidationError:
        raise typer.BadParameter(f"{name!r} is not a skill name: a-z, 0-9 and single hyphens") from None


def parse_args(text: str) -> dict[str, JsonValue]:
    """Parse the value of --args.

    Raises:
        typer.BadParameter: It is not a JSON object.
    """
    try:
        value = json.loads(text)
        # Python accepts more than JSON: NaN, infinite numbers and lone surrogates.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--args") from error
    if not isinstance(value, dict):
        raise typer.BadParameter('not a JSON object like {"name": "value"}', param_hint="--args")
    return value


def build_request(kind: type[RequestT], fields: Mapping[str, object]) -> RequestT:
    """Build a request from the fields that are not None. An error never shows a value: it may be a key.

    Raises:
        typer.BadParameter: A field breaks the contract.
    """
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = str(first["loc"][0])
        option = _OPTIONS.get(field, f"--{field.replace('_', '-')}")
        raise typer.BadParameter(describe_error(first), param_hint=option) from None
