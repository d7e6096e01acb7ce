"""Tools as stubs: what they say, and that no text of a provider becomes code."""

import ast

import pytest
from pydantic import JsonValue

from skillbus.agent.domain.builtins.calculate import CALCULATE
from skillbus.agent.domain.programs.stubs import write_stub, write_type
from skillbus.contracts.indexer.tools import ToolDescription, ToolType


def describe(parameters: dict[str, JsonValue] | None, description: str = "Does it.", id_: str = "mcp:a/b") -> str:
    tool = ToolDescription(id=id_, name="b", description=description, tool_type=ToolType.MCP, parameters=parameters)
    return write_stub(tool)


def test_a_stub_is_the_signature_of_a_call() -> None:
    signature, description = write_stub(CALCULATE.description).splitlines()
    assert signature == (
        'async def call_tool(id: Literal["builtin:calculate"], /, *, expression: str, digits: int = 15)'
        " -> dict[str, Any]:"
    )
    assert "Evaluate an arithmetic expression" in description


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array", "items": {"type": "string"}}, "list[str]"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "dict[str, float]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "int | bool"),
        ({"anyOf": [{"type": "integer"}, {}]}, "Any"),
        ({"enum": ["a", 'b"', 3, None, True]}, 'Literal["a", "b\\"", 3, None, True]'),
        ({"enum": [1.5]}, "Any"),
        ({"const": "x"}, 'Literal["x"]'),
        ({"$ref": "#/$defs/x"}, "Any"),
        (True, "Any"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "array"}}}},
         "list[list[list[list[Any]]]]"),
    ],
)  # fmt: skip
def test_types_say_what_a_schema_allows(schema: JsonValue, said: str) -> None:
    assert write_type(schema) == said


HOSTILE = '"""\nimport os\nos.system("x")\n"""\\'


@pytest.mark.parametrize("text", [HOSTILE, "\\", "a\u2028b", "'''", "{}%s", "\x1b[0m", "\ud7ff"])
def test_no_text_of_a_provider_becomes_code(text: str) -> None:
    properties: JsonValue = {
        text: {"type": text, "default": text},
        "max-size": {"type": "integer"},
        "class": {"enum": [text]},
        "plain": {"default": text, "enum": [text, 1]},
    }
    stub = describe(
        {"properties": properties, "required": [text, "plain", 3]}, text or "x", f"mcp:a/{''.join(text.split())}b"
    )
    [function] = ast.parse(stub).body
    assert isinstance(function, ast.AsyncFunctionDef)
    assert [argument.arg for argument in function.args.kwonlyargs] == ["plain"]
    [documented] = function.body
    assert isinstance(documented, ast.Expr)
    assert isinstance(documented.value, ast.Constant)


@pytest.mark.parametrize("parameters", [None, {}, {"properties": []}, {"properties": {"a": 1}, "required": "a"}])
def test_a_schema_that_says_nothing_gives_a_stub_too(parameters: dict[str, JsonValue] | None) -> None:
    assert describe(parameters).startswith('async def call_tool(id: Literal["mcp:a/b"], /')
    ast.parse(describe(parameters))
