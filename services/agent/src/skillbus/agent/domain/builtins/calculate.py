"""The tool `calculate`."""

import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import Annotated, Final

from pydantic import Field

from skillbus.agent.domain.builtins.arithmetic import Number, evaluate
from skillbus.agent.domain.builtins.tool import BuiltinArguments, BuiltinProfile, make_tool
from skillbus.agent.domain.tool_answer import ToolAnswer

MAX_EXPRESSION: Final = 1_000
"""Characters. The most expensive expressions found of that length take some 15 ms."""
_FLOAT_DIGITS: Final = 15
"""Decimal digits that a float always holds (IEEE 754)."""


class CalculateArguments(BuiltinArguments):
    expression: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_EXPRESSION,
            description="Arithmetic such as (3 + 4) * 2, 15% * 80 or sqrt(2); `^` and `**` are powers.",
        ),
    ]
    digits: Annotated[
        int, Field(ge=1, le=50, description="Significant digits of a result that is not a whole number.")
    ] = 15


async def _calculate(_project: str, arguments: CalculateArguments) -> ToolAnswer:
    value = evaluate(arguments.expression)
    text, exact = format_number(value, arguments.digits)
    return ToolAnswer(text, structured={"result": text, "exact": exact})


def format_number(value: Number, digits: int) -> tuple[str, bool]:
    """Return a number as people write it, and True if that is its exact value. Whole numbers are never cut."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return str(value.numerator), True
    if isinstance(value, float):
        rounded = Context(prec=min(digits, _FLOAT_DIGITS)).create_decimal_from_float(value)
        return format_decimal(rounded), False
    quotient = Context(prec=digits).divide(Decimal(value.numerator), Decimal(value.denominator))
    return format_decimal(quotient), Fraction(quotient) == value


def format_decimal(value: Decimal) -> str:
    """Format without trailing zeros, and without an exponent where that is readable."""
    if value == 0:
        return "0"
    size = math.floor(value.log10()) if value > 0 else math.floor((-value).log10())
    text = f"{value:f}" if -6 <= size < 21 else f"{value:e}"
    digits, exponent, power = text.partition("e")
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + exponent + power


CALCULATE: Final = make_tool(
    BuiltinProfile(
        name="calculate",
        english="Evaluate an arithmetic expression exactly: decimals, percentages, powers, roots, logarithms, "
        "sine, cosine and other trigonometry, factorials, averages.",
        chinese="计算器：对算式求值，支持加减乘除、小数、百分数、乘方、开方（开根号）、对数、三角函数、阶乘与平均值等数学计算。",
        tags=("math", "calculator", "数学", "计算"),
        examples=(
            "What is 17.5% of 2,340?",
            "Calculate (12 + 8) * 3 ** 2.",
            "What is the square root of 1764?",
            "算一下 (3.5 + 4.5) × 12 等于多少",
            "帮我计算 2 的 20 次方",
            "1260 打八五折是多少钱",
        ),
    ),
    CalculateArguments,
    _calculate,
)
