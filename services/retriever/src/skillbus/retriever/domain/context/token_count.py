"""How many tokens a text has: by a tokenizer, or, where none is named, at most."""

import re
from dataclasses import dataclass
from typing import Final, Protocol
from unicodedata import normalize

UPPER_BOUND: Final = "upper_bound"
_NEVER_LONGER: Final = re.compile("[\x00-\x7f\xb7\u2010-\u2027\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uff01-\uff5e]*")
"""Of characters that no normal form and no folding of case makes longer: ASCII, most of Chinese."""


class TokenCounter(Protocol):
    """Counts tokens of texts, without those that mark the beginning and the end of a whole prompt."""

    @property
    def name(self) -> str:
        """Whose tokens."""
        ...

    def count(self, text: str) -> int:
        """How many the text has; none if it is empty."""
        ...

    def count_part(self, text: str) -> int:
        """The same of a part that comes again with other requests. What was counted before may be remembered."""
        ...


class Tokenizers(Protocol):
    """The tokenizers that there are."""

    def named(self, name: str) -> TokenCounter:
        """The counter of a tokenizer; takes time when it is asked for first.

        Raises:
            TokenizerUnknownError: There is none of that name.
            TokenizerUnusableError: It is there and cannot be used.
        """
        ...


@dataclass(frozen=True, slots=True)
class UpperBound:
    """At least what any tokenizer counts that falls back to bytes.

    Such a one splits a text into pieces of at least a byte: byte-level BPE (tiktoken and what follows GPT-2) does so by
    construction, SentencePiece with byte fallback where it knows no larger piece. Some change the text first: they
    normalise it (NFC, NFKC), fold its case, which can make it longer (U+FDFA is 3 bytes, and 33 in NFKC), and put a
    space before it, which is the 1. Nothing tighter holds for all of them: of letters in an order that no word has,
    each is a token. Of Chinese it is three times what newer tokenizers count, of English four times.
    """

    name: str = UPPER_BOUND

    def count(self, text: str) -> int:
        if not text:
            return 0
        if _NEVER_LONGER.fullmatch(text):
            return len(text.encode()) + 1
        compatible = normalize("NFKC", text)
        forms = (text, normalize("NFC", text), compatible, compatible.casefold())
        return max(len(form.encode()) for form in forms) + 1

    def count_part(self, text: str) -> int:
        return self.count(text)
