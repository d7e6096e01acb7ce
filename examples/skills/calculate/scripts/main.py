"""Evaluates an arithmetic expression given as {"expression", "variables"?, "digits"?}."""

import math
from fractions import Fraction

from evaluator import Number, evaluate
from skillio import Arguments, SkillError, integer_of, run, text_of

MAX_EXPRESSION_LENGTH = 2000


def calculate(arguments: Arguments) -> dict[str, object]:
    expression = text_of(arguments, "expression").strip()
    if not expression:
        raise SkillError("the expression is empty")
    if len(expression) > MAX_EXPRESSION_LENGTH:
        raise SkillError(f"the expression is longer than {MAX_EXPRESSION_LENGTH} characters")
    digits = integer_of(arguments, "digits", 12, 1, 15)
    return describe(expression, evaluate(expression, variables_of(arguments)), digits)


def variables_of(arguments: Arguments) -> dict[str, Number]:
    variables = arguments.get("variables", {})
    if not isinstance(variables, dict):
        raise SkillError("argument 'variables' must be an object of name: number")
    return {name: number_of(name, value) for name, value in variables.items()}


def number_of(name: str, value: object) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SkillError(f"variable {name!r} must be a finite number")
    return Fraction(str(value))


def describe(expression: str, value: Number, digits: int) -> dict[str, object]:
    result: dict[str, object] = {"expression": expression}
    if isinstance(value, float):
        return {**result, "value": value, "text": f"{value:.{digits}g}", "exact": False}
    if value.denominator == 1:
        return {**result, "value": value.numerator, "text": str(value.numerator), "exact": True}
    try:
        rounded = float(value)
    except OverflowError:
        raise SkillError("the result is too large to be written as a decimal") from None
    result |= {"value": rounded, "text": f"{rounded:.{digits}g}", "exact": True}
    return result | ({} if is_finite_decimal(value) else {"fraction": str(value)})


def is_finite_decimal(value: Fraction) -> bool:
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


if __name__ == "__main__":
    run(calculate)
