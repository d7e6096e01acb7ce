"""Calls into Qdrant Edge, with its exceptions translated.

The engine raises a bare `Exception` for all its errors and, when Rust panics, a `BaseException`.
"""

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from skillbus.vectors.errors import VectorStoreError, VectorStoreRejected, VectorStoreUnavailable

P = ParamSpec("P")
R = TypeVar("R")

_CALLERS_FAULT: Final = (
    "Vector dimension error",
    "Not existing vector name error",
    "Wrong usage of sparse vectors",
    "Wrong usage of multi vectors",
    "Payload type does not match",
    "Validation failed",
)


def call_edge(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the engine and translate its exceptions into errors of this package.

    The engine never releases the GIL, so there is no point in a thread: it would stop the loop just the same.
    """
    try:
        return function(*args, **kwargs)
    except VectorStoreError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise VectorStoreRejected(f"Qdrant Edge refused the call: {_first_line(error)}") from error
    except Exception as error:
        if str(error).startswith(_CALLERS_FAULT):
            raise VectorStoreRejected(f"Qdrant Edge refused the call: {_first_line(error)}") from error
        raise VectorStoreUnavailable(f"Qdrant Edge failed: {_first_line(error)}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise VectorStoreUnavailable(f"Qdrant Edge panicked: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    """Return the first line: for a payload that it cannot convert the engine lists every type that it tried."""
    return str(error).partition("\n")[0]
