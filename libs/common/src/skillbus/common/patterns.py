"""Regular expressions of strangers, matched in a time that grows with the text and not with what the pattern hides.

Python's own engine backtracks: `a?a?a?…aaa` takes it longer than the age of the universe, and no rule about how a
pattern is written tells which do. The engine of pydantic (Rust's `regex`) never goes back; it knows no look-around and
no back references, and bounds the size of what a pattern compiles to.
"""

from typing import Annotated, Final

from pydantic import StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError

PATTERN_MAX: Final = 1024
"""Characters of a pattern."""
MATCHED_MAX: Final = 64 * 1024
"""Characters of a text: with the largest pattern that compiles still well below a second."""


class UnusablePattern(Exception):  # noqa: N818  # read as a sentence: raise UnusablePattern
    """A pattern that is no regular expression, or none that this engine takes; the message says why."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, written: str) -> None:
        """Compile `written`.

        Raises:
            UnusablePattern: It cannot be used.
        """
        if len(written) > PATTERN_MAX:
            raise UnusablePattern(f"it is {len(written)} characters long, the limit is {PATTERN_MAX}")
        try:
            self._text = TypeAdapter[str](Annotated[str, StringConstraints(pattern=written)])
        except SchemaError as error:
            raise UnusablePattern(_reason(error)) from error

    def is_in(self, text: str) -> bool:
        """Whether the pattern matches anywhere in `text`, of `MATCHED_MAX` characters at most."""
        try:
            self._text.validate_python(text)
        except ValidationError:
            return False
        return True


def _reason(error: SchemaError) -> str:
    """The engine's last line: what it is that it does not take."""
    return str(error).strip().splitlines()[-1].removeprefix("error: ").strip()
