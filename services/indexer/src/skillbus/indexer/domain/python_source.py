"""Python read without being run."""

import ast
import warnings
from threading import Lock
from typing import Final

_ATTEMPTS: Final = 5
_PARSING: Final = Lock()
"""Of the process, as what it guards is; so are the filters of `warnings`."""


def parse_python(source: bytes) -> ast.Module | None:
    """The syntax tree of a source; None of one that does not parse, or is nested too deeply.

    CPython 3.11 counts the depth of trees in one place for all threads, and raises SystemError when another thread
    parsed meanwhile: one at a time is parsed here, and what another library disturbed is parsed again.
    """
    for _ in range(_ATTEMPTS):
        try:
            with _PARSING, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # stray backslashes in strangers' strings
                return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        except SystemError:
            continue
    return None
