"""Modules stay within 400 lines, functions within 60 lines and a complexity of 10."""

import ast

import pytest

from .sizes import COMPLEXITY, FUNCTION_LINES, MODULE_LINES, complexity, oversize
from .tree import ROOT, named, product_modules

_SCRIPTS = sorted([*ROOT.glob("benchmarks/**/*.py"), *ROOT.glob("examples/skills/*/scripts/*.py")])


def function(body: str) -> str:
    return "def f(a, b, c):\n" + "".join(f"    {line}\n" for line in body.splitlines())


def complexity_of(body: str) -> int:
    parsed = ast.parse(function(body)).body[0]
    assert isinstance(parsed, ast.FunctionDef)
    return complexity(parsed)


def test_modules_and_functions_stay_within_their_limits() -> None:
    files = [*product_modules(), *_SCRIPTS]
    assert not {named(file): found for file in files if (found := list(oversize(file.read_text(encoding="utf-8"))))}


def test_a_module_of_one_line_too_many_is_over() -> None:
    assert not list(oversize("x = 1\n" * MODULE_LINES))
    assert list(oversize("x = 1\n" * (MODULE_LINES + 1)))


def test_a_function_of_one_line_too_many_is_over_wherever_it_is() -> None:
    longest = function("x = 1\n" * (FUNCTION_LINES - 1))
    inner = "class C:\n" + "".join(f"    {line}\n" for line in function("x = 1\n" * FUNCTION_LINES).splitlines())
    assert not list(oversize(longest))
    assert list(oversize(longest + "    x = 1\n"))
    assert list(oversize(inner))


def test_a_function_of_one_decision_too_many_is_over() -> None:
    body = "if a:\n    pass\n"
    assert not list(oversize(function(body * (COMPLEXITY - 1))))
    assert list(oversize(function(body * COMPLEXITY)))


@pytest.mark.parametrize(
    ("body", "ways"),
    [
        ("pass", 1),
        ("if a:\n    pass\nelif b:\n    pass\nelse:\n    pass", 3),
        ("return a and b or c", 1),
        ("for x in a:\n    pass\nwhile b:\n    pass", 3),
        ("return [x for x in a if x]", 1),
        ("try:\n    pass\nexcept KeyError:\n    pass\nexcept ValueError:\n    pass", 3),
        ("match a:\n    case 1:\n        pass\n    case 2:\n        pass\n    case _:\n        pass", 3),
        ("def g():\n    if a:\n        pass\nreturn g", 1),
    ],
)
def test_complexity_counts_decisions(body: str, ways: int) -> None:
    assert complexity_of(body) == ways
