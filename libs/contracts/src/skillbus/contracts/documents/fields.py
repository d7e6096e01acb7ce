"""A message's JSON Schema as a table of fields for people."""

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


class Node(BaseModel):
    """A part of a JSON Schema, as far as pydantic writes it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ref: str | None = Field(default=None, alias="$ref")
    type: str | None = None
    any_of: tuple["Node", ...] = Field(default=(), alias="anyOf")
    items: "Node | None" = None
    values: "Node | bool | None" = Field(default=None, alias="additionalProperties")
    properties: dict[str, "Node"] = Field(default_factory=dict)
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
        """The name of what it refers to."""
        return (self.ref or "").rpartition("/")[2]


def anchor(name: str) -> str:
    """Where a type is described on the page."""
    return f"type-{name.lower()}"


def field_table(node: Node, *, request: bool) -> str:
    """The fields of an object as a Markdown table. A reply has no column of defaults: it says all it knows."""
    if not node.properties:
        return "Nothing: `{}`, or no body at all." if request else "Nothing: `{}`."
    head = ("field", "type", "limits", "default", "meaning") if request else ("field", "type", "meaning")
    rows = [_row(name, field, name in node.required, request=request) for name, field in node.properties.items()]
    return table(head, rows)


def _row(name: str, field: Node, required: bool, *, request: bool) -> tuple[str, ...]:
    meaning = " ".join(field.description.split())
    if not request:
        return (f"`{name}`", type_of(field), meaning)
    return (
        f"`{name}`",
        type_of(field),
        ", ".join(_limits(field)),
        "**required**" if required else _default(field),
        meaning,
    )


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _default(field: Node) -> str:
    if "default" not in field.model_fields_set:
        return "`{}`" if field.type == "object" else "none"
    return "absent" if field.default is None else f"`{json.dumps(field.default, ensure_ascii=False)}`"


def type_of(node: Node) -> str:
    """What a value is, with links to the types it is made of."""
    if node.ref:
        return "any JSON" if node.target == "JsonValue" else f"[{node.target}](#{anchor(node.target)})"
    if node.any_of:
        return " or ".join(type_of(choice) for choice in node.any_of if choice.type != "null")
    if node.enum or "const" in node.model_fields_set:
        return " or ".join(f"`{json.dumps(value)}`" for value in (node.enum or (node.const,)))
    if node.type == "array":
        return f"list of {type_of(node.items)}" if node.items else "list"
    if isinstance(node.values, Node):
        return f"object of {type_of(node.values)}"
    return _simple_type(node)


def _simple_type(node: Node) -> str:
    if node.encoding:
        return f"{node.encoding} (bytes in msgpack)"
    if node.format == "date-time":
        return "time, ISO 8601"
    return _TYPE_NAMES[node.type] if node.type else "any JSON"


def _limits(node: Node) -> Iterator[str]:
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
