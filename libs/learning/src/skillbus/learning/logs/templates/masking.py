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
_DELIMITERS: Final = r"\s,;:=|\"'()\[\]{}<>!"
_TOKEN_START: Final = rf"(?<![^{_DELIMITERS}])"
_IN_TOKEN: Final = rf"[^{_DELIMITERS}]"
_TOKEN_END: Final = rf"(?!{_IN_TOKEN})"

_SINGLE_RULES: Final = "|".join(
    (
        # URLs, with all that follows their scheme.
        r"(?<![\w+.-])[a-zA-Z][\w+.-]*://[^\s\"'<>\]})]+",
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
        # A word with a digit, a sign included; not the name of a function.
        rf"{_TOKEN_START}[<>~]?[^\d{_DELIMITERS}]*\d{_IN_TOKEN}*{_TOKEN_END}(?!\(\))",
        # Paths of POSIX and Windows.
        rf"{_TOKEN_START}(?:(?:~|\.{{1,2}})?[/\\]{_IN_TOKEN}+|[\w.-]+(?:[/\\][\w.-]+){{2,}}){_TOKEN_END}",
        # Names with two dots or more (hosts, classes, properties), addresses with @, names of files.
        rf"{_TOKEN_START}[\w$-]+(?:\.[\w$-]+){{2,}}{_TOKEN_END}(?=[^\w]|$)",
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
_SPACES: Final = re.compile(r"\s+")


def mask_values(message: str) -> str:
    """Return the message with a placeholder for each value and for each list of values, and with single spaces."""
    return collapse_lists(_SPACES.sub(" ", _VALUES.sub(VALUE, message)).strip())


def collapse_lists(masked: str) -> str:
    """Return the masked message with one placeholder for each list of values."""
    return _LISTS.sub(VALUE, masked)
