"""Tables of the fields of a message, made from its JSON Schema."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

_TYPE_NAMES: Final[Mapping[str, str]] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "object",
}


class SchemaNode(BaseModel):
    """Part of a JSON Schema, with the keywords that pydantic writes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ref: str | None = Field(default=None, alias="$ref")
    type: str | None = None
    any_of: tuple["SchemaNode", ...] = Field(default=(), alias="anyOf")
    items: "SchemaNode | None" = None
    values: "SchemaNode | bool | None" = Field(default=None, alias="additionalProperties")
    properties: dict[str, "SchemaNode"] = Field(default_factory=dict)
    required: tuple[str, ...] = ()
    enum: tuple[JsonValue, ...] = ()
    const: JsonValue = None
    default: JsonValue = None
    description: str = ""
    format: str | None = None
    encoding: str | None = Field(default=None, alias="contentEncoding")
    pattern: str | None = None
    min_length: int | None = Field(default=None, alias="minLength")
    max_length: int | None = Field(default=None, alias="maxLength")
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = Field(default=None, alias="exclusiveMinimum")
    min_items: int | None = Field(default=None, alias="minItems")
    max_items: int | None = Field(default=None, alias="maxItems")
    max_properties: int | None = Field(default=None, alias="maxProperties")

    @property
    def target(self) -> str:
        """Name of the component that it refers to."""
        return (self.ref or "").rpartition("/")[2]


def make_anchor(name: str) -> str:
    """Return the anchor of a type on the page."""
    return f"type-{name.lower()}"


def format_field_table(node: SchemaNode, *, request: bool) -> str:
    """Return the fields of an object as a Markdown table. Limits and defaults are shown for requests only."""
    if not node.properties:
        return "No fields: `{}`, or an empty body." if request else "No fields: `{}`."
    head = ("field", "type", "limits", "default", "meaning") if request else ("field", "type", "meaning")
    rows = [_row(name, field, name in node.required, request=request) for name, field in node.properties.items()]
    return format_table(head, rows)


def _row(name: str, field: SchemaNode, required: bool, *, request: bool) -> tuple[str, ...]:
    meaning = " ".join(field.description.split())
    if not request:
        return (f"`{name}`", format_type(field), meaning)
    if required:
        default = "**required**"
    elif "default" not in field.model_fields_set:
        default = "`{}`" if field.type == "object" else "none"
    else:
        default = "absent" if field.default is None else f"`{json.dumps(field.default, ensure_ascii=False)}`"
    return (f"`{name}`", format_type(field), ", ".join(_limits(field)), default, meaning)


def format_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def format_type(node: SchemaNode) -> str:
    """Return the type of a value, with links to the types that it consists of."""
    if node.ref:
        return "any JSON" if node.target == "JsonValue" else f"[{node.target}](#{make_anchor(node.target)})"
    if node.any_of:
        return " or ".join(format_type(choice) for choice in node.any_of if choice.type != "null")
    if node.enum or "const" in node.model_fields_set:
        return " or ".join(f"`{json.dumps(value)}`" for value in (node.enum or (node.const,)))
    if node.type == "array":
        return f"list of {format_type(node.items)}" if node.items else "list"
    if isinstance(node.values, SchemaNode):
        return f"object of {format_type(node.values)}"
    return _format_simple_type(node)


def _format_simple_type(node: SchemaNode) -> str:
    if node.encoding:
        return f"{node.encoding} (bytes in msgpack)"
    if node.format == "date-time":
        return "time (RFC 3339)"
    return _TYPE_NAMES[node.type] if node.type else "any JSON"


def _limits(node: SchemaNode) -> Iterator[str]:
    for choice in node.any_of:
        yield from _limits(choice)
    yield from _span(node.min_length, node.max_length, " characters")
    yield from _span(node.min_items, node.max_items, " entries")
    yield from _span(None, node.max_properties, " entries")
    yield from _span(node.minimum, node.maximum, "")
    if node.above is not None:
        yield f"> {node.above:g}"
    if node.pattern:
        yield f"`{node.pattern}`"
    if node.items:
        yield from (f"each {limit}" for limit in _limits(node.items))


def _span(low: float | None, high: float | None, unit: str) -> Iterator[str]:
    if low is not None and high is not None:
        yield f"{low:,g} to {high:,g}{unit}"
    elif low is not None:
        yield f"≥ {low:,g}{unit}"
    elif high is not None:
        yield f"≤ {high:,g}{unit}"
