"""Arithmetic over Python's syntax tree: numbers, operators, constants and listed functions, and nothing else.

Nothing is executed. What an expression costs is bounded before it is computed: by its length (the caller's), its depth,
and the digits of every number on the way.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

from skillbus.agent.domain.builtins.errors import ToolFailedError
from skillbus.agent.domain.builtins.functions import CONSTANTS, FUNCTIONS, MAX_BITS, Number, bounded

MAX_DEPTH: Final = 60
"""Of parentheses, calls and signs within one another; a long sum is not deep."""
MAX_EXPONENT: Final = 600
"""Of a number as it is written: `1e600`."""

_OTHER_SIGNS: Final = str.maketrans("（），＋－＊／％．０１２３４５６７８９×÷−^，", "(),+-*/%.0123456789*/-^,")
_PERCENT: Final = re.compile(r"((?<![\w.])\d+(?:\.\d*)?|(?<![\w.])\.\d+)\s*%(?=\s*(?:$|[-+*/),^]))")
_TOKEN: Final = re.compile(
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z]\w*)|[-+*/%(),]|\s+", re.ASCII
)
_BINARY: Final[Mapping[type[ast.operator], Callable[[Number, Number], Number]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda left, right: Fraction(left // right),
    ast.Mod: operator.mod,
}


def evaluate(expression: str) -> Number:
    """The value of an expression, an exact fraction or a finite float.

    Raises:
        ToolFailedError: With the place or the reason, when it has none.
    """
    source = normalized(expression)
    try:
        _check_words(source)
        return _Evaluation(source).value(ast.parse(source, mode="eval").body, 0)
    except SyntaxError as error:
        raise ToolFailedError(f"the expression cannot be read near column {error.offset or 1}") from None
    except (RecursionError, MemoryError):
        raise ToolFailedError("the expression is nested too deeply: send its parts one by one") from None
    except ZeroDivisionError:
        raise ToolFailedError("division by zero") from None
    except OverflowError:
        raise ToolFailedError("a number in it is too large to be computed exactly") from None
    except (ValueError, TypeError) as error:
        raise ToolFailedError(f"it has no value: {error}") from None


def normalized(expression: str) -> str:
    """Full-width signs to ASCII, `15%` to a hundredth (`17 % 5` stays a remainder), `^` to a power; in one line."""
    text = " ".join(expression.translate(_OTHER_SIGNS).rstrip("=＝ \t\r\n").split())
    return _PERCENT.sub(r"(\1/100)", text).replace("^", "**")


def _check_words(source: str) -> None:
    """Raises ToolFailedError at whatever is no arithmetic, before Python's own parser sees it."""
    at = 0
    while at < len(source):
        token = _TOKEN.match(source, at)
        if token is None or (token["number"] and re.match(r"[\w.]", source[token.end() :])):
            raise ToolFailedError(f"{source[at : at + 20]!r} at column {at + 1} is not arithmetic")
        name = token["name"]
        if name and name not in FUNCTIONS and name not in CONSTANTS:
            known = ", ".join((*CONSTANTS, *FUNCTIONS))
            raise ToolFailedError(f"{name[:50]!r} at column {at + 1} is not known; known are {known}")
        at = token.end()


class _Evaluation:
    """`source` is kept so that decimals are read from their own digits, not from the nearest float."""

    def __init__(self, source: str) -> None:
        self._source = source

    def value(self, node: ast.expr, depth: int) -> Number:
        if depth > MAX_DEPTH:
            raise RecursionError
        match node:
            case ast.Constant():
                return bounded(written(self._source[node.col_offset : node.end_col_offset]))
            case ast.Name(id=name) if name in CONSTANTS:
                return CONSTANTS[name]
            case ast.UnaryOp(op=sign, operand=operand):
                value = self.value(operand, depth + 1)
                return -value if isinstance(sign, ast.USub) else value
            case ast.BinOp():
                return self._chain(node, depth + 1)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS and arguments:
                return bounded(FUNCTIONS[name](*(self.value(argument, depth + 1) for argument in arguments)))
        raise ToolFailedError(f"{ast.unparse(node)[:60]!r} is not arithmetic: use numbers, operators and functions")

    def _chain(self, node: ast.expr, depth: int) -> Number:
        """A sum of many is a tree that leans to the left: it is walked without going deeper."""
        steps: list[ast.BinOp] = []
        while isinstance(node, ast.BinOp):
            steps.append(node)
            node = node.left
        total = self.value(node, depth)
        for step in reversed(steps):
            total = bounded(_combined(step.op, total, self.value(step.right, depth)))
        return total


def written(digits: str) -> Number:
    """A number from its own digits. The exponent is looked at first: a fraction of 1e999999999 would fill memory."""
    mantissa, _, exponent = digits.lower().partition("e")
    if len(exponent) > 5 or abs(int(exponent or 0)) > MAX_EXPONENT:
        raise OverflowError
    return Fraction(mantissa.removesuffix(".")) * Fraction(10) ** int(exponent or 0)


def _combined(sign: ast.operator, left: Number, right: Number) -> Number:
    if isinstance(sign, ast.Pow):
        return _power(left, right)
    return _BINARY[type(sign)](left, right)


def _power(base: Number, exponent: Number) -> Number:
    """Exact for whole exponents; refused before it is computed when the result would be too long."""
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits > 1 and (bits - 1) * abs(exponent) > MAX_BITS:
            raise OverflowError
        return Fraction(base ** int(exponent))
    if base < 0:
        raise ValueError("a negative number has no real power with a fractional exponent")
    return math.pow(base, exponent)
