"""Tools as typed Python stubs, which say in one line what a JSON Schema says in many."""

import json
import keyword
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.indexer.tools import ToolDescription

_TYPES: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_DEPTH: Final = 4
"""Levels of a schema that become types; deeper ones are `Any`."""
_CHOICES: Final = 20
"""Most values of a `Literal`."""
_DESCRIPTION_CHARACTERS: Final = 1_000


def write_stub(tool: ToolDescription) -> str:
    """Return the stub of a tool: a signature of `call_tool` for its id alone, with its description."""
    properties, required = _read_properties(tool.parameters or {})
    usual = {name: schema for name, schema in properties.items() if _is_name(name)}
    words = [f"id: Literal[{_quote(tool.id)}]", "/"]
    arguments = sorted(usual, key=lambda name: name not in required)
    if arguments:
        words += ["*", *(_write_argument(name, usual[name], name in required) for name in arguments)]
    others = [f"{_quote(name)}: {write_type(schema)}" for name, schema in properties.items() if name not in usual]
    lines = [f"async def call_tool({', '.join(words)}) -> dict[str, Any]:"]
    lines += [f"    {_quote(_describe(tool, others))}"]
    return "\n".join(lines) + "\n"


def write_type(schema: JsonValue, depth: int = _DEPTH) -> str:
    """Return the Python type of the values that a JSON Schema allows; `Any` for what types cannot say."""
    if not isinstance(schema, Mapping) or depth == 0:
        return "Any"
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(choices, list):
        return _write_choices(choices)
    for several in ("anyOf", "oneOf"):
        options = schema.get(several)
        if isinstance(options, list):
            return _join(write_type(option, depth - 1) for option in options[:_CHOICES])
    kinds = schema.get("type")
    names = kinds if isinstance(kinds, list) else [kinds]
    return _join(_write_kind(name, schema, depth) for name in names[:_CHOICES])


def _write_kind(kind: JsonValue, schema: Mapping[str, JsonValue], depth: int) -> str:
    if kind == "array":
        return f"list[{write_type(schema.get('items'), depth - 1)}]"
    if kind == "object":
        return f"dict[str, {write_type(schema.get('additionalProperties'), depth - 1)}]"
    return _TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"


def _write_choices(choices: Sequence[JsonValue]) -> str:
    simple = [one for one in choices if isinstance(one, str | int | None)]
    if not 0 < len(simple) == len(choices) <= _CHOICES:
        return "Any"  # Literal has neither floats nor lists
    return f"Literal[{', '.join(map(_quote, simple))}]"


def _write_argument(name: str, schema: JsonValue, is_required: bool) -> str:
    text = f"{name}: {write_type(schema)}"
    if is_required:
        return text
    default = schema.get("default") if isinstance(schema, Mapping) else None
    return f"{text} = {_quote(default) if isinstance(default, str | int) else '...'}"


def _read_properties(parameters: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue], set[str]]:
    properties, required = parameters.get("properties"), parameters.get("required")
    names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set[str]()
    return (dict(properties) if isinstance(properties, Mapping) else {}), names


def _describe(tool: ToolDescription, others: Sequence[str]) -> str:
    text = " ".join(tool.description.split())[:_DESCRIPTION_CHARACTERS]
    if others:
        text = f"{text} Also, by **: {{{', '.join(others)}}}"
    return text.strip() or tool.name


def _is_name(text: str) -> bool:
    return text.isidentifier() and text.isascii() and not keyword.iskeyword(text)


def _quote(value: str | int | None) -> str:
    """Return a value as a Python literal. Text cannot end its quotes, whatever a provider wrote into it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return repr(value)


def _join(types: Iterator[str]) -> str:
    known = list(dict.fromkeys(types))
    return "Any" if "Any" in known or not known else " | ".join(known)
