"""Times in log lines: one pattern for the usual ways to write them, and seconds for comparison."""

from typing import Final

_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*"
_DAY: Final = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?"
_LOOSE_CLOCK: Final = r"\d{1,2}:\d{1,2}:\d{1,2}(?:[.,:]\d{1,9})?"
"""Clock that may lack leading zeros: a date stands before it."""
_CLOCK: Final = rf"(?:\d{{1,2}}[:.]\d{{2}}(?:[:.]\d{{2}}(?:[.,:]\d{{1,9}})?)?(?![:\d])|{_LOOSE_CLOCK})(?: ?[AP]M)?"
_FULL_CLOCK: Final = r"\d{1,2}:\d{2}:\d{2}(?:[.,:]\d{1,9})?(?: ?[AP]M)?"
_ZONE: Final = r"(?: ?(?:Z|UTC|GMT|[A-Z]{3,4}T|[+-]\d{2}:?\d{2}))?(?![\w:])"

TIME_PATTERN: Final = (
    "(?:"
    + "|".join(
        (
            rf"\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:(?:[T _-]|, )?{_CLOCK}{_ZONE})?",
            rf"\d{{1,2}}[/ -]{_MONTH}[/ -]\d{{2,4}}[ :T]{_CLOCK}{_ZONE}",
            rf"{_DAY}{_MONTH} {{1,2}}\d{{1,2}},? (?:\d{{4}},? )?{_CLOCK}{_ZONE}(?: \d{{4}}\b)?",
            rf"\d{{1,2}}[-/.]\d{{1,2}}(?:[-/.]\d{{2,4}})?,?[ T]{_CLOCK}{_ZONE}",
            r"\d{6}(?:\d{2})?[ T-]\d{2}:?\d{2}:?\d{2}(?:[.,:]\d+)?(?!\d)",
            rf"\d{{8}}[ T-]{_LOOSE_CLOCK}(?![\w:])",
            rf"{_FULL_CLOCK}{_ZONE}",
            r"1\d{9}(?:\.\d{1,9}|\d{3})?(?!\d)",
            r" *\d+\.\d{6}(?!\d)",
        )
    )
    + ")"
)
