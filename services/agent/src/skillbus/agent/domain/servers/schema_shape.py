"""Quick check that a server's input schema has the shape of a JSON Schema.

It takes some microseconds, because a listing can hold thousands of schemas. The metaschema takes a millisecond for
each; it is applied when arguments are checked.
"""

from typing import Final

from pydantic import JsonValue

SCHEMA_BYTES: Final = 64 * 1024
"""Size of an input schema that the catalogue accepts."""
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_SCHEMA_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_KEYWORDS: Final = frozenset(
    {"additionalProperties", "additionalItems", "contains", "else", "if", "not", "propertyNames", "then"}
)
_NUMBERS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_COUNTS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_TEXTS: Final = frozenset({"$ref", "$schema", "$id", "pattern", "title", "description", "format"})


def find_shape_problem(schema: JsonValue, path: str = "$") -> str | None:
    """Return the first problem of a schema and its place; None if the schema looks valid."""
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict):
        return f"{path} is not a schema"
    for keyword, value in schema.items():
        if problem := _check_keyword(keyword, value, f"{path}.{keyword}"):
            return problem
    return None


def _check_keyword(keyword: str, value: JsonValue, path: str) -> str | None:
    if keyword in _SCHEMA_MAPS:
        return _check_all(value, path) if isinstance(value, dict) else f"{path} is not an object of schemas"
    if keyword in _SCHEMA_LISTS or (keyword == "items" and isinstance(value, list)):
        return _check_all(value, path) if isinstance(value, list) else f"{path} is not a list of schemas"
    if keyword in _SCHEMA_KEYWORDS or keyword == "items":
        return find_shape_problem(value, path)
    return None if _fits_keyword(keyword, value) else f"{path} does not fit its keyword"


def _fits_keyword(keyword: str, value: JsonValue) -> bool:
    if keyword == "type":
        types = value if isinstance(value, list) else [value]
        return all(isinstance(kind, str) and kind in _TYPES for kind in types)
    if keyword == "required":
        # A boolean was used by drafts before the fourth; it has no meaning since.
        return isinstance(value, bool) or (isinstance(value, list) and all(isinstance(name, str) for name in value))
    if keyword in _NUMBERS:
        return isinstance(value, int | float)  # the exclusive ones were booleans in draft 4
    if keyword in _COUNTS:
        return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if keyword == "enum":
        return isinstance(value, list)
    return keyword not in _TEXTS or isinstance(value, str)


def _check_all(schemas: "dict[str, JsonValue] | list[JsonValue]", path: str) -> str | None:
    items = schemas.items() if isinstance(schemas, dict) else enumerate(schemas)
    return next((problem for key, schema in items if (problem := find_shape_problem(schema, f"{path}.{key}"))), None)
