"""Constants in Python source, read as JSON without running anything."""

import ast
import math
import warnings
from collections.abc import Mapping
from enum import Enum
from threading import Lock
from typing import Final, Literal

from pydantic import JsonValue

from skillbus.contracts.parsing import parse_undisturbed

_PARSING: Final = Lock()
"""One lock for the process: its threads share the filters of `warnings` and, before 3.11.8, the parser's counter."""
_MAX_ITEMS = 200
_MAX_SUM = 4096
"""Longest text made by a sum: names that double themselves line by line would fill the memory."""
_MAX_WEIGHT = 16 * 1024
_MAX_INTEGER = 2**63


def parse_python(source: bytes) -> ast.Module | None:
    """Return the syntax tree of a source, or None if it does not parse or is nested too deeply.

    Sources are parsed one at a time: see `parse_undisturbed`.
    """
    try:
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of stray backslashes in the strings of strangers
            return parse_undisturbed(lambda: ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
        return None


class Unknown(Enum):
    """Marker of a value that is not a constant, or that JSON cannot hold."""

    UNKNOWN = "unknown"


UNKNOWN: Literal[Unknown.UNKNOWN] = Unknown.UNKNOWN


def read_constants(tree: ast.Module) -> dict[str, JsonValue]:
    """Return the constants that a module assigns at its top level. The last assignment counts."""
    found: dict[str, JsonValue] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets, expression = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value:
            targets, expression = [statement.target], statement.value
        else:
            continue
        value = evaluate_literal(expression, found)
        for target in targets:
            if isinstance(target, ast.Name) and not isinstance(value, Unknown):
                found[target.id] = value
    return found


def evaluate_literal(node: ast.expr | None, constants: Mapping[str, JsonValue]) -> JsonValue | Unknown:
    """Evaluate an expression. Sets and tuples become lists, and unknown values of a dict become None."""
    result: JsonValue | Unknown = UNKNOWN
    match node:
        case ast.Constant(value=value):
            result = _evaluate_constant(value)
        case ast.Name(id=name):
            result = constants.get(name, UNKNOWN)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            result = _evaluate_list(items, constants)
        case ast.Dict():
            result = _evaluate_dict(node, constants)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = evaluate_literal(operand, constants)
            result = -number if isinstance(number, int | float) and not isinstance(number, bool) else UNKNOWN
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            result = _add(evaluate_literal(left, constants), evaluate_literal(right, constants))
        case ast.Call():
            result = _evaluate_call(node, constants)
    return result


def evaluate_small_literal(node: ast.expr | None, constants: Mapping[str, JsonValue]) -> JsonValue | Unknown:
    """Evaluate an expression, but return UNKNOWN if the value would be large once it is written out.

    Lists share the values of names: thirty lines of `a = [a, a]` are a billion items in little memory.
    """
    value = evaluate_literal(node, constants)
    return UNKNOWN if isinstance(value, Unknown) or _is_heavy(value) else value


def _is_heavy(value: JsonValue) -> bool:
    """Return True for more than `_MAX_WEIGHT` characters and items. Visits at most that many."""
    weight, waiting = 0, [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                weight += len(text)
            case list() as items:
                waiting.extend(items)
            case dict() as items:
                waiting.extend((*items, *items.values()))
        weight += 1
        if weight > _MAX_WEIGHT:
            return True
    return False


def _evaluate_constant(value: object) -> JsonValue | Unknown:
    match value:
        case None | bool():
            return value
        case str():
            return value if value.isascii() or value.encode("utf-8", "replace").decode() == value else UNKNOWN
        case int():
            return value if abs(value) < _MAX_INTEGER else UNKNOWN
        case float():
            return value if math.isfinite(value) else UNKNOWN
        case _:
            return UNKNOWN


def _evaluate_list(items: list[ast.expr], constants: Mapping[str, JsonValue]) -> JsonValue | Unknown:
    if len(items) > _MAX_ITEMS:
        return UNKNOWN
    found: list[JsonValue] = []
    for item in items:
        value = evaluate_literal(item, constants)
        if isinstance(value, Unknown):
            return UNKNOWN
        found.append(value)
    return found


def _evaluate_dict(node: ast.Dict, constants: Mapping[str, JsonValue]) -> JsonValue | Unknown:
    found: dict[str, JsonValue] = {}
    if len(node.keys) > _MAX_ITEMS:
        return UNKNOWN
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        key, value = evaluate_literal(key_node, constants), evaluate_literal(value_node, constants)
        if not isinstance(key, str):
            return UNKNOWN
        found[key] = None if isinstance(value, Unknown) else value
    return found


def _add(left: JsonValue | Unknown, right: JsonValue | Unknown) -> JsonValue | Unknown:
    if isinstance(left, str) and isinstance(right, str):
        return left + right if len(left) + len(right) <= _MAX_SUM else UNKNOWN
    if isinstance(left, list) and isinstance(right, list) and len(left) + len(right) <= _MAX_ITEMS:
        return left + right
    return UNKNOWN


def _evaluate_call(node: ast.Call, constants: Mapping[str, JsonValue]) -> JsonValue | Unknown:
    arguments = [evaluate_literal(argument, constants) for argument in node.args]
    match node.func, arguments:
        case ast.Name(id="list" | "tuple" | "set"), [list() | dict() as items]:
            return list(items)
        case ast.Name(id="sorted"), [list() | dict() as items] if all(isinstance(item, str) for item in items):
            return list[JsonValue](sorted(str(item) for item in items))
        case ast.Name(id="Path"), [str() as path]:
            return path
        case ast.Name(id="range"), [*bounds]:
            given = [bound for bound in bounds if isinstance(bound, int)]
            is_range = len(given) == len(bounds) and 1 <= len(given) <= 3 and given[2:] != [0]
            numbers = range(*given) if is_range else None
            is_short = numbers is not None and numbers[: _MAX_ITEMS + 1] == numbers
            return list[JsonValue](numbers) if numbers is not None and is_short else UNKNOWN
        case ast.Attribute(value=owner, attr="keys"), []:
            keys = evaluate_literal(owner, constants)
            return list[JsonValue](keys) if isinstance(keys, dict) else UNKNOWN
        case _:
            return UNKNOWN
