"""JSON Schemas that skills bring along, accepted only if validating with them is harmless."""

import json

from jsonschema import Draft202012Validator
from jsonschema import SchemaError as InvalidSchemaError
from pydantic import JsonValue, TypeAdapter, ValidationError

SCHEMA_BYTES = 64 * 1024


_MAX_DEPTH = 32


_OBJECT = TypeAdapter(dict[str, JsonValue])


class SchemaError(Exception):
    """The schema cannot be kept; the message says why."""


def read_schema(source: str | bytes) -> dict[str, JsonValue]:
    """A schema of an object, from JSON.

    Raises:
        SchemaError: it is no JSON object, no JSON Schema, not of an object, or it refers to somewhere else.
    """
    if len(source) > SCHEMA_BYTES:
        raise SchemaError(f"the schema is longer than {SCHEMA_BYTES} bytes")
    try:
        schema = _OBJECT.validate_json(source)
    except ValidationError as error:
        raise SchemaError("the schema is not a JSON object") from error
    check_schema(schema)
    return schema


def check_schema(schema: dict[str, JsonValue]) -> None:
    """Refuse what is not a JSON Schema of an object.

    Raises:
        SchemaError: as `read_schema`.
    """
    _check_references(schema, 0)
    if schema.get("type", "object") != "object":
        raise SchemaError('the schema is not of an object; its top must be `"type": "object"`')
    try:
        json.dumps(schema, allow_nan=False)
        Draft202012Validator.check_schema(schema)
    except (InvalidSchemaError, ValueError) as error:
        reason = error.message if isinstance(error, InvalidSchemaError) else str(error)
        raise SchemaError(f"the schema is not a valid JSON Schema: {reason[:200]}") from error


def _check_references(value: JsonValue, depth: int) -> None:
    # Validators fetch what a reference names; only places in the schema itself may be named.
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
                raise SchemaError(f"the schema has `{key}` inside; leave it out")
            _check_references(item, depth + 1)
