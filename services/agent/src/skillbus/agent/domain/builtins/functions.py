"""Functions and constants of arithmetic expressions."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

Number: TypeAlias = Fraction | float
"""Exact, or a float after a function with an irrational result."""
Function: TypeAlias = Callable[..., Number]

MAX_BITS: Final = 13_000
"""Bits of numerator and denominator together: some 3,900 digits, less than the 4,300 that Python prints."""
MAX_FACTORIAL: Final = 1_000
MAX_PLACES: Final = 100


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


FUNCTIONS: Final[Mapping[str, Function]] = {
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
