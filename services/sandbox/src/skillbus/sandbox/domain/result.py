"""A script's output, read as a value."""

import json
from typing import Final

from skillbus.sandbox.domain.arguments import Json

RESULT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Longer output stays text: nested lists take some thirty times their text in memory."""


def json_result(stdout: bytes) -> Json:
    """`stdout` as JSON, or None when it is not JSON in UTF-8 that can be written again as such.

    NaN and Infinity, which Python writes and JSON does not know, lone surrogates, integers too long to convert and
    nesting too deep to parse all give None, as does output over 4 MiB.
    """
    if len(stdout) > RESULT_BYTES_MAX:
        return None
    try:
        value: Json = json.loads(stdout.decode(), parse_constant=_refuse)
        if b"\\u" in stdout:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is not JSON")
