"""JSON Schemas that skills declare for their arguments, accepted only if runs can use them."""

import json
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from skillbus.common import json_schema

SCHEMA_BYTES: Final = 64 * 1024
_MAX_DEPTH: Final = 32
_OBJECT: Final = TypeAdapter(dict[str, JsonValue])


class SchemaError(Exception):
    """The schema is refused; the message says why."""


def parse_schema(source: str | bytes) -> dict[str, JsonValue]:
    """Parse the JSON Schema of an object.

    Raises:
        SchemaError: It is not JSON, not an object's schema, refers to another document, or runs could not use it.
    """
    if len(source) > SCHEMA_BYTES:
        raise SchemaError(f"the schema is longer than {SCHEMA_BYTES} bytes")
    try:
        schema = _OBJECT.validate_json(source)
        json.dumps(schema, allow_nan=False)
    except ValidationError as error:
        raise SchemaError("the schema is not a JSON object") from error
    except ValueError as error:
        raise SchemaError("the schema contains a number that JSON does not have, such as NaN") from error
    _check_references(schema, 0)
    if schema.get("type", "object") != "object":
        raise SchemaError('the schema is not of an object; its top must be `"type": "object"`')
    try:
        json_schema.check_schema(schema)
    except json_schema.UnusableSchemaError as error:
        raise SchemaError(f"the schema cannot be used: {error.path}: {error.problem[:200]}") from error
    return schema


def _check_references(value: JsonValue, depth: int) -> None:
    # Validators fetch what a reference names, so references may only name places in the schema itself.
    if depth > _MAX_DEPTH:
        raise SchemaError(f"the schema is nested deeper than {_MAX_DEPTH}")
    if isinstance(value, list):
        for item in value:
            _check_references(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in {"$ref", "$dynamicRef"} and isinstance(item, str) and not item.startswith("#"):
                raise SchemaError("the schema refers to another document; put its definitions under `$defs`")
            if key in {"$id", "$schema"} and depth and isinstance(item, str):
                raise SchemaError(f"the schema has `{key}` inside; remove it")
            _check_references(item, depth + 1)
