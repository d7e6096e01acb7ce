"""Normal form of every text before a model or the lexical encoder reads it."""

import re
import unicodedata

# Longer runs of combining marks are cut: NFKC sorts them in quadratic time (50,000 pairs take 6 s). Unicode's
# Stream-Safe Text Format (UAX #15, section 13) allows 30. Symbols (emoji, rules of "─") are in the class, and no loss.
_MARKS = r"[^\w\s\x00-\u02ff]"
_STORM = re.compile(rf"({_MARKS}{{30}}){_MARKS}+")
_UNENCODABLE = re.compile("[\x00\ud800-\udfff]")  # NUL ends a C string; lone surrogates have no UTF-8


def normalise_text(text: str, max_chars: int) -> str:
    """Return the text in NFKC, at most `max_chars` characters before and after (one can become eighteen).

    NUL and lone surrogates become U+FFFD, so the result can always be encoded. Models read only this form, so equal
    results mean equal vectors.
    """
    tame = _STORM.sub(r"\1", _UNENCODABLE.sub("\ufffd", text[:max_chars]))
    return unicodedata.normalize("NFKC", tame)[:max_chars]
