"""Whether a server's word for JSON Schema is one: its shape alone, in some microseconds.

A listing holds thousands. The metaschema takes a millisecond for each; it is asked when arguments are checked.
"""

from typing import Final

from pydantic import JsonValue

SCHEMA_BYTES: Final = 64 * 1024
"""Of a tool's input schema: what the catalogue takes."""
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_OF_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_SCHEMAS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA: Final = frozenset(
    {"additionalProperties", "additionalItems", "contains", "else", "if", "not", "propertyNames", "then"}
)
_NUMBERS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_COUNTS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_TEXTS: Final = frozenset({"$ref", "$schema", "$id", "pattern", "title", "description", "format"})


def misshapen(schema: JsonValue, path: str = "$") -> str | None:
    """What is wrong with a schema, and where; None if it looks like one."""
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict):
        return f"{path} is no schema"
    for keyword, value in schema.items():
        if problem := _keyword(keyword, value, f"{path}.{keyword}"):
            return problem
    return None


def _keyword(keyword: str, value: JsonValue, path: str) -> str | None:
    if keyword in _OF_SCHEMAS:
        return _all(value, path) if isinstance(value, dict) else f"{path} is no object of schemas"
    if keyword in _SCHEMAS or (keyword == "items" and isinstance(value, list)):
        return _all(value, path) if isinstance(value, list) else f"{path} is no list of schemas"
    if keyword in _SCHEMA or keyword == "items":
        return misshapen(value, path)
    return None if _is_value_of(keyword, value) else f"{path} does not fit its keyword"


def _is_value_of(keyword: str, value: JsonValue) -> bool:
    if keyword == "type":
        types = value if isinstance(value, list) else [value]
        return all(isinstance(kind, str) and kind in _TYPES for kind in types)
    if keyword == "required":
        # A boolean was what drafts before the fourth had; it says nothing since.
        return isinstance(value, bool) or (isinstance(value, list) and all(isinstance(name, str) for name in value))
    if keyword in _NUMBERS:
        return isinstance(value, int | float)  # the exclusive ones were booleans in the fourth draft
    if keyword in _COUNTS:
        return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if keyword == "enum":
        return isinstance(value, list)
    return keyword not in _TEXTS or isinstance(value, str)


def _all(schemas: "dict[str, JsonValue] | list[JsonValue]", path: str) -> str | None:
    items = schemas.items() if isinstance(schemas, dict) else enumerate(schemas)
    return next((problem for key, schema in items if (problem := misshapen(schema, f"{path}.{key}"))), None)
