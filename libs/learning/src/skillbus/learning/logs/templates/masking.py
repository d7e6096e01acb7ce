"""Masking of the values in a log message.

The rules are about log messages in general; docs/learning.md lists them as sentences. Those on words with digits,
booleans and paths follow Khan et al., "Guidelines for Assessing the Accuracy of Log Message Template Identification
Techniques" (ICSE 2022).
"""

import re
from typing import Final

VALUE: Final = "<*>"
"""Placeholder of a value."""

_UNIT: Final = (
    r"(?:[KMGT]i?B|[KMGT]bps|B|bytes?|bits?|[nmuµ]?s|secs?|seconds?|minutes?|mins?|hours?|hrs?|days?|milliseconds?|millis"
    r"|MHz|GHz|kHz|Hz|percent|%)"
)
_QUANTITY: Final = rf"[<>~]?[-+]?\d[\d.,]*(?: ?{_UNIT})(?![\w/])"
_EXTENSION: Final = (
    r"(?:exe|dll|sys|log|txt|conf|cfg|ini|xml|json|ya?ml|toml|py|pyc|java|class|jar|war|js|ts|css|html?|php|rb|go|so|o|sh|bat"
    r"|gz|tgz|zip|tar|rpm|deb|tmp|bak|dat|db|csv|properties|png|jpe?g|gif|pdf|pid|sock|lock|img|iso)"
)
_DATE: Final = (
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
    r" {1,2}\d{1,2},?(?: \d{4})? \d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d+)?(?: [AP]M)?(?: [A-Z]{3,4})?(?: \d{4})?"
)
_CONSTANT: Final = r"[a-z][\w$]*(?:\.[\w$]+)*\.[A-Z][A-Z_]+"
_DELIMITERS: Final = r"\s,;:=|\"'()\[\]{}<>!"
_TOKEN_START: Final = rf"(?<![^{_DELIMITERS}])"
_IN_TOKEN: Final = rf"[^{_DELIMITERS}]"
_TOKEN_END: Final = rf"(?!{_IN_TOKEN})"

_SINGLE_RULES: Final = "|".join(
    (
        # URLs, with all that follows their scheme, up to the punctuation of the sentence.
        r"(?<![\w+.-])[a-zA-Z][\w+.-]*://[^\s\"'<>\]})]*[^\s\"'<>\]}):;,.]",
        # A day with its date and clock, as one value.
        rf"(?<!\w){_DATE}(?!\w)",
        # A path with a query.
        rf"{_TOKEN_START}/[^\s?\"'<>]*\?[^\s\"'<>)\]]*",
        # A property with a dotted name, up to the end.
        r"(?<=[\s:])[\w-]+(?:\.[\w-]+)+=[^=]+$",
        # A quantity with its unit, and its repetition in another unit in parentheses.
        rf"{_TOKEN_START}{_QUANTITY}(?: \({_QUANTITY}\))?",
        # The value of key=value.
        r"(?<=[\w\])>]=)(?:\"[^\"]*\"|'[^']*'|[^\s,;\"'(){}\[\]<>=][^\s,;\"'(){}\[\]]*)",
        # A quoted value: one word, or several in single quotes.
        r"(?:\"[^\s\"]+\"|(?<!\w)'[^']{1,80}'(?!\w)|`[^`]{1,80}`)",
        # Addresses of hexadecimal groups with colons.
        r"(?<![\w:])(?:[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5,}|(?:[0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{1,4})(?![\w:])",
        # A name and the numbers of its things in brackets: node-[1-4,7].
        rf"{_TOKEN_START}[A-Za-z][\w.]*(?:-\w*\[\d[\d\\ ,-]*\]|\[\d+(?:[-,]\d+)+\])",
        # A word with a digit, a sign included; not the name of a function.
        rf"{_TOKEN_START}[<>~]?[^\d{_DELIMITERS}]*\d{_IN_TOKEN}*{_TOKEN_END}(?!\(\))",
        # Paths of POSIX and Windows.
        rf"{_TOKEN_START}(?:(?:~|\.{{1,2}})?[/\\]{_IN_TOKEN}+|[\w.-]+(?:[/\\][\w.-]+){{2,}}){_TOKEN_END}",
        # Names with two dots or more (hosts, classes, properties), not those of constants; addresses with @; files.
        rf"{_TOKEN_START}(?!{_CONSTANT}{_TOKEN_END})[\w$-]+(?:\.[\w$-]+){{2,}}{_TOKEN_END}(?=[^\w]|$)",
        rf"{_TOKEN_START}[\w.+%$-]+@[\w.$-]+",
        rf"{_TOKEN_START}[\w-]+\.{_EXTENSION}{_TOKEN_END}",
        # Words joined by commas: a list of values.
        rf"{_TOKEN_START}\w[\w.-]*(?:,\w[\w.-]*)+{_TOKEN_END}",
        # Booleans, null and the name of the superuser.
        rf"{_TOKEN_START}(?:(?i:true|false|null|root)|None){_TOKEN_END}",
    )
)
_VALUES: Final = re.compile(_SINGLE_RULES)
_LISTS: Final = re.compile(r"<\*>(?:(?:[ ,;:|@+#.]|, |; )?<\*>)+|<\*>[%.]?<\*>")
_REPEATED: Final = re.compile(r"(<\*> (?:<\w+>|\(\w+\)|\[\w+\]|\w+))(?:[,;]? \1)+(?!\w)")
"""A value and a word, repeated."""
_LEADERS: Final = re.compile(r"(?<!\.)\.{3,}(?=\w)")
"""Rows of dots between a name and its value."""
_SPACES: Final = re.compile(r"\s+")


def mask_values(message: str) -> str:
    """Return the message with a placeholder for each value and for each list of values, and with single spaces."""
    if "..." in message:
        message = _LEADERS.sub("... ", message)
    return collapse_lists(_SPACES.sub(" ", _VALUES.sub(VALUE, message)).strip())


def collapse_lists(masked: str) -> str:
    """Return the masked message with one placeholder for each list of values."""
    listed = _LISTS.sub(VALUE, masked)
    return _REPEATED.sub(r"\1", listed) if listed.count(VALUE) > 1 else listed
