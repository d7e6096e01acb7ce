"""Limits on the lines of modules and functions, and on the cyclomatic complexity of functions."""

import ast
from collections.abc import Iterator
from typing import Final

MODULE_LINES: Final = 400
FUNCTION_LINES: Final = 60
COMPLEXITY: Final = 10

_BRANCHES: Final = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def oversize(source: str) -> Iterator[str]:
    """Yield one message for each limit that a module exceeds."""
    lines = len(source.splitlines())
    if lines > MODULE_LINES:
        yield f"{lines} lines, over {MODULE_LINES}"
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function(function)


def _function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if lines > FUNCTION_LINES:
        yield f"{function.name} in line {function.lineno} has {lines} lines, over {FUNCTION_LINES}"
    ways = complexity(function)
    if ways > COMPLEXITY:
        yield f"{function.name} in line {function.lineno} has a complexity of {ways}, over {COMPLEXITY}"


def complexity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return McCabe's number as ruff counts it: 1, plus each branch, plus each case of a `match` but the last.

    Functions that are defined inside count for themselves.
    """
    return 1 + sum(_decisions(node) for statement in function.body for node in _own(statement))


def _own(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, _FUNCTIONS):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _own(child)


def _decisions(node: ast.AST) -> int:
    return len(node.cases) - 1 if isinstance(node, ast.Match) else int(isinstance(node, _BRANCHES))
