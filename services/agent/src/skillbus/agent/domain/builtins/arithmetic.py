"""Evaluates arithmetic expressions: numbers, operators, constants and listed functions only.

The expression is parsed into Python's syntax tree and never executed. Its cost is bounded before it is computed: by its
length (checked by the caller), its depth, and the digits of every intermediate number.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from skillbus.agent.domain.errors import BuiltinFailedError
from skillbus.contracts.parsing import parse_undisturbed

Number: TypeAlias = Fraction | float
"""Exact, or a float after a function with an irrational result."""

MAX_BITS: Final = 13_000
"""Bits of numerator and denominator together: some 3,900 digits, less than the 4,300 that Python prints."""
MAX_FACTORIAL: Final = 1_000
MAX_PLACES: Final = 100
MAX_DEPTH: Final = 60
"""Nesting of parentheses, calls and signs; a long sum is not nested."""
MAX_EXPONENT: Final = 600
"""Largest exponent of a written number: `1e600`."""

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


def check_size(value: Number) -> Number:
    """Return the number. Raise OverflowError if it is too long to continue with, or not finite."""
    if isinstance(value, Fraction):
        too_large = value.numerator.bit_length() + value.denominator.bit_length() > MAX_BITS
    else:
        too_large = not math.isfinite(value)
    if too_large:
        raise OverflowError
    return value


def add_all(*values: Number) -> Number:
    whole_sum: Number = Fraction(0)
    for value in values:
        whole_sum = check_size(whole_sum + value)
    return whole_sum


def least_common(*values: Number) -> Number:
    multiple = 1
    for value in values:
        check_size(Fraction(multiple := math.lcm(multiple, whole(value))))
    return Fraction(multiple)


def whole(value: Number) -> int:
    if value != math.floor(value):
        raise ValueError(f"{float(value):g} is not a whole number")
    return int(value)


def factorial(value: Number) -> Number:
    if value > MAX_FACTORIAL:
        raise ValueError(f"factorials are limited to {MAX_FACTORIAL}")
    return Fraction(math.factorial(whole(value)))


def choose(rule: Callable[[int, int], int], total: Number, taken: Number) -> Number:
    if total > MAX_FACTORIAL:
        raise ValueError(f"combinations are limited to {MAX_FACTORIAL} items")
    return Fraction(rule(whole(total), whole(taken)))


def square_root(value: Number) -> Number:
    """Return the exact root if it is rational."""
    if isinstance(value, Fraction) and value >= 0:
        top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if Fraction(top * top, bottom * bottom) == value:
            return Fraction(top, bottom)
    return math.sqrt(value)


def rounded(value: Number, places: Number = Fraction(0)) -> Number:
    """Round half to even, as accountants and Python do."""
    return round(Fraction(value), max(-MAX_PLACES, min(whole(places), MAX_PLACES)))


def mean(*values: Number) -> Number:
    return add_all(*values) / len(values)


def median(*values: Number) -> Number:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def logarithm(rule: Callable[[int | float], float], value: Number) -> Number:
    """Compute the logarithm also of whole numbers that are too large for a float."""
    return rule(value.numerator if isinstance(value, Fraction) and value.denominator == 1 else float(value))


FUNCTIONS: Final[Mapping[str, Callable[..., Number]]] = {
    "sqrt": square_root,
    "abs": abs,
    "round": rounded,
    "floor": lambda value: Fraction(math.floor(value)),
    "ceil": lambda value: Fraction(math.ceil(value)),
    "min": lambda first, *rest: min((first, *rest)),
    "max": lambda first, *rest: max((first, *rest)),
    "sum": add_all,
    "mean": mean,
    "median": median,
    "factorial": factorial,
    "comb": lambda total, taken: choose(math.comb, total, taken),
    "perm": lambda total, taken: choose(math.perm, total, taken),
    "gcd": lambda *values: Fraction(math.gcd(*map(whole, values))),
    "lcm": least_common,
    "ln": lambda value: logarithm(math.log, value),
    "log": lambda value, base=Fraction(math.e): logarithm(math.log, value) / logarithm(math.log, base),
    "log2": lambda value: logarithm(math.log2, value),
    "log10": lambda value: logarithm(math.log10, value),
    "exp": math.exp,
    "cbrt": math.cbrt,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "atan2": math.atan2,
    "degrees": math.degrees,
    "radians": math.radians,
    "hypot": math.hypot,
}
CONSTANTS: Final[Mapping[str, Number]] = {"pi": math.pi, "e": math.e, "tau": math.tau}


def evaluate(expression: str) -> Number:
    """Return the value of an expression: an exact fraction or a finite float.

    Raises BuiltinFailedError, with the place or the reason, if it has no value.
    """
    source = normalize_expression(expression)
    try:
        _check_tokens(source)
        tree = parse_undisturbed(lambda: ast.parse(source, mode="eval"))
        return _Evaluation(source).evaluate_node(tree.body, 0)
    except SyntaxError as error:
        raise BuiltinFailedError(f"the expression cannot be read near column {error.offset or 1}") from None
    except (RecursionError, MemoryError):
        raise BuiltinFailedError("the expression is nested too deeply: send its parts one by one") from None
    except ZeroDivisionError:
        raise BuiltinFailedError("division by zero") from None
    except OverflowError:
        raise BuiltinFailedError("a number in it is too large to be computed exactly") from None
    except (ValueError, TypeError) as error:
        raise BuiltinFailedError(f"it has no value: {error}") from None


def normalize_expression(expression: str) -> str:
    """Convert full-width signs to ASCII, `15%` to a fraction (`17 % 5` stays a remainder) and `^` to a power."""
    text = " ".join(expression.translate(_OTHER_SIGNS).rstrip("=＝ \t\r\n").split())
    return _PERCENT.sub(r"(\1/100)", text).replace("^", "**")


def _check_tokens(source: str) -> None:
    """Raise BuiltinFailedError at the first token that is not arithmetic, before Python's parser sees it."""
    at = 0
    while at < len(source):
        token = _TOKEN.match(source, at)
        if token is None or (token["number"] and re.match(r"[\w.]", source[token.end() :])):
            raise BuiltinFailedError(f"{source[at : at + 20]!r} at column {at + 1} is not arithmetic")
        name = token["name"]
        if name and name not in FUNCTIONS and name not in CONSTANTS:
            known = ", ".join((*CONSTANTS, *FUNCTIONS))
            raise BuiltinFailedError(f"{name[:50]!r} at column {at + 1} is not known; known are {known}")
        at = token.end()


class _Evaluation:
    """Evaluates one syntax tree. Numbers are read from the digits in `source`, not from the nearest float."""

    def __init__(self, source: str) -> None:
        self._source = source

    def evaluate_node(self, node: ast.expr, depth: int) -> Number:
        if depth > MAX_DEPTH:
            raise RecursionError
        match node:
            case ast.Constant():
                return check_size(parse_number(self._source[node.col_offset : node.end_col_offset]))
            case ast.Name(id=name) if name in CONSTANTS:
                return CONSTANTS[name]
            case ast.UnaryOp(op=sign, operand=operand):
                value = self.evaluate_node(operand, depth + 1)
                return -value if isinstance(sign, ast.USub) else value
            case ast.BinOp():
                return self._evaluate_chain(node, depth + 1)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS and arguments:
                return check_size(FUNCTIONS[name](*(self.evaluate_node(argument, depth + 1) for argument in arguments)))
        raise BuiltinFailedError(f"{ast.unparse(node)[:60]!r} is not arithmetic: use numbers, operators and functions")

    def _evaluate_chain(self, node: ast.expr, depth: int) -> Number:
        """Evaluate operators from left to right. A long sum leans to the left and needs no recursion."""
        steps: list[ast.BinOp] = []
        while isinstance(node, ast.BinOp):
            steps.append(node)
            node = node.left
        total = self.evaluate_node(node, depth)
        for step in reversed(steps):
            right = self.evaluate_node(step.right, depth)
            is_power = isinstance(step.op, ast.Pow)
            total = check_size(_compute_power(total, right) if is_power else _BINARY[type(step.op)](total, right))
        return total


def parse_number(digits: str) -> Number:
    """Parse a number exactly. The exponent is checked first: a fraction of 1e999999999 would fill the memory."""
    mantissa, _, exponent = digits.lower().partition("e")
    if len(exponent) > 5 or abs(int(exponent or 0)) > MAX_EXPONENT:
        raise OverflowError
    return Fraction(mantissa.removesuffix(".")) * Fraction(10) ** int(exponent or 0)


def _compute_power(base: Number, exponent: Number) -> Number:
    """Compute whole powers exactly. A result that would be too long is refused before it is computed."""
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits > 1 and (bits - 1) * abs(exponent) > MAX_BITS:
            raise OverflowError
        return Fraction(base ** int(exponent))
    if base < 0:
        raise ValueError("a negative number has no real power with a fractional exponent")
    return math.pow(base, exponent)
