"""Arithmetic over Python's syntax tree: only numbers, names, operators and listed functions are evaluated.

Numbers stay exact fractions until a function with an irrational result makes them floats.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from skillio import SkillError

Number = Fraction | float

MAX_RESULT_BITS = 13_000  # about 3,900 digits, under the 4,300 that Python prints
MAX_FACTORIAL = 1000

FULL_WIDTH = str.maketrans("（），＋－＊／％＝．０１２３４５６７８９×÷−^，", "(),+-*/%=.0123456789*/-^,")
PERCENT = re.compile(r"((?<![\w.])\d+(?:\.\d*)?|(?<![\w.])\.\d+)\s*%(?=\s*(?:$|[-+*/),^]))")

CONSTANTS: Mapping[str, Number] = {"pi": math.pi, "e": math.e, "tau": math.tau}

BINARY: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True, slots=True)
class Scope:
    """`source` is kept so that decimals are read from their own digits, not from the nearest float."""

    source: str
    names: Mapping[str, Number]


def evaluate(expression: str, variables: Mapping[str, Number]) -> Number:
    """Raises SkillError with the place or the reason when the expression has no value."""
    try:
        source = normalized(expression)
        tree = ast.parse(source, mode="eval")
        return finite(value_of(tree.body, Scope(source, {**CONSTANTS, **variables})))
    except SyntaxError as error:
        raise SkillError(f"the expression cannot be read near column {error.offset or 1}") from None
    except (RecursionError, MemoryError):
        raise SkillError("the expression is nested too deeply") from None
    except ZeroDivisionError:
        raise SkillError("division by zero") from None
    except OverflowError:
        raise SkillError("the result is too large") from None
    except (ValueError, TypeError) as error:
        raise SkillError(f"no value: {error}") from None


def normalized(expression: str) -> str:
    """Full-width signs to ASCII, `15%` to a hundredth (but `17 % 5` stays a remainder), `^` to a power."""
    text = expression.translate(FULL_WIDTH).rstrip("= ")
    return PERCENT.sub(r"(\1/100)", text).replace("^", "**").replace("\n", " ").strip()


def value_of(node: ast.expr, scope: Scope) -> Number:  # noqa: PLR0911 - one return for each kind of node
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return bounded(Fraction(value))
        case ast.Constant(value=float(value)):
            return decimal(value, ast.get_source_segment(scope.source, node))
        case ast.Name(id=name):
            return known_name(name, scope.names)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -value_of(operand, scope)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return value_of(operand, scope)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return power(value_of(left, scope), value_of(right, scope))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in BINARY:
            return bounded(BINARY[type(sign)](value_of(left, scope), value_of(right, scope)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return call(name, [value_of(argument, scope) for argument in arguments])
    raise SkillError(f"{ast.unparse(node)[:60]!r} is not arithmetic; use numbers, operators, functions and variables")


def decimal(nearest: float, digits: str | None) -> Number:
    """The float tells the size first: a fraction of 1e999999999 would fill the memory."""
    if math.isinf(nearest):
        raise OverflowError
    return bounded(Fraction(digits or nearest)) if nearest else Fraction(0)


def known_name(name: str, names: Mapping[str, Number]) -> Number:
    if name not in names:
        raise SkillError(f"unknown name {name!r}; give it in 'variables' or use one of {', '.join(CONSTANTS)}")
    return names[name]


def bounded(value: Number) -> Number:
    if isinstance(value, Fraction) and value.numerator.bit_length() + value.denominator.bit_length() > MAX_RESULT_BITS:
        raise OverflowError
    return value


def finite(value: Number) -> Number:
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError
    return value


def power(base: Number, exponent: Number) -> Number:
    """Exact for whole exponents; refused before it is computed when the result would be too long."""
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits > 1 and bits * abs(exponent) > MAX_RESULT_BITS:
            raise OverflowError
        return bounded(Fraction(base ** int(exponent)))
    if base < 0:
        raise ValueError("a negative number has no real power with a fractional exponent")
    return math.pow(base, exponent)


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
    if isinstance(value, Fraction) and value >= 0:
        top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if Fraction(top * top, bottom * bottom) == value:
            return Fraction(top, bottom)
    return math.sqrt(value)


def rounded(value: Number, places: Number = Fraction(0)) -> Number:
    return round(Fraction(value), min(whole(places), 100))


def mean(*values: Number) -> Number:
    return sum(values) / len(values)


def median(*values: Number) -> Number:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def functions() -> Mapping[str, Callable[..., Number]]:
    exact: dict[str, Callable[..., Number]] = {
        "sqrt": square_root,
        "abs": abs,
        "round": rounded,
        "floor": lambda value: Fraction(math.floor(value)),
        "ceil": lambda value: Fraction(math.ceil(value)),
        "min": lambda first, *rest: min(first, *rest) if rest else first,
        "max": lambda first, *rest: max(first, *rest) if rest else first,
        "sum": lambda *values: sum(values, Fraction(0)),
        "mean": mean,
        "median": median,
        "factorial": factorial,
        "comb": lambda total, taken: choose(math.comb, total, taken),
        "perm": lambda total, taken: choose(math.perm, total, taken),
        "gcd": lambda *values: Fraction(math.gcd(*map(whole, values))),
        "lcm": lambda *values: Fraction(math.lcm(*map(whole, values))),
        "ln": math.log,
    }
    inexact = "cbrt exp log log2 log10 sin cos tan asin acos atan atan2 degrees radians hypot"
    return exact | {name: getattr(math, name) for name in inexact.split()}


def call(name: str, values: Sequence[Number]) -> Number:
    known = functions()
    if name not in known:
        raise SkillError(f"unknown function {name!r}; known: {', '.join(sorted(known))}")
    if not values:
        raise SkillError(f"{name}() needs a value")
    return bounded(known[name](*values))
