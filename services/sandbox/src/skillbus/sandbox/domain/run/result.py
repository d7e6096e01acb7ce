"""JSON result of a script, parsed from its output."""

import json
import math
from typing import Final

from skillbus.sandbox.domain.run.arguments import Json

RESULT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Longest output that is parsed: nested lists take some thirty times their text in memory."""

NESTING_MAX: Final = 100
"""Deepest nesting of lists and objects. The codecs of the reply write 255 and read 200 levels, their own included."""


def parse_result(stdout: bytes) -> Json:
    """Return `stdout` as JSON, or None if it is not JSON in UTF-8 that can be encoded again.

    NaN and Infinity (Python writes them, JSON has no such values), numbers beyond a float, lone surrogates, integers
    too long to convert, nesting deeper than `NESTING_MAX`, and output over 4 MiB all give None.
    """
    if len(stdout) > RESULT_BYTES_MAX:
        return None
    try:
        value: Json = json.loads(stdout.decode(), parse_constant=_refuse, parse_float=_finite)
        _check_nesting(value)
        if b"\\u" in stdout:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is beyond a float")
    return number


def _check_nesting(value: Json) -> None:
    level = [value]
    for _ in range(NESTING_MAX):
        lists = [parent for parent in level if isinstance(parent, list)]
        lists += [list(parent.values()) for parent in level if isinstance(parent, dict)]
        level = [item for items in lists for item in items if isinstance(item, list | dict)]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {NESTING_MAX}")
