"""Python's own parser, used by several threads."""

from collections.abc import Callable
from typing import Final, TypeVar

ParsedT = TypeVar("ParsedT")
_ATTEMPTS: Final = 5


def parse_undisturbed(parse: Callable[[], ParsedT]) -> ParsedT:
    """Call `parse`, and again if another thread disturbed it.

    CPython before 3.11.8 has one depth counter of `ast.parse` for all threads, and raises SystemError when two of them
    parse at the same time. numpy parses the head of each array that it reads, so that loading a model counts as well.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return parse()
        except SystemError:
            continue
    return parse()
