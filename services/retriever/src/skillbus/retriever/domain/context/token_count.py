"""Token counts of texts: by a tokenizer or, where none is named, an upper bound."""

import re
from dataclasses import dataclass
from typing import Final, Protocol
from unicodedata import normalize

UPPER_BOUND: Final = "upper_bound"
_NEVER_LONGER: Final = re.compile("[\x00-\x7f\xb7\u2010-\u2027\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uff01-\uff5e]*")
"""Characters that no normal form and no case folding makes longer: ASCII, most of Chinese."""


class TokenCounter(Protocol):
    """Counts the tokens of texts, without the marks at the beginning and end of a prompt."""

    @property
    def name(self) -> str:
        """Name of the tokenizer, or `upper_bound`."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens; 0 of an empty text."""
        ...

    def count_part(self, text: str) -> int:
        """Return the number of tokens of a part that other requests contain too. The count may be cached."""
        ...


class Tokenizers(Protocol):
    """The tokenizers that are available."""

    def load_counter(self, name: str) -> TokenCounter:
        """Return the counter of a tokenizer. The first call for a name reads its file.

        Raises:
            TokenizerUnknownError: There is no tokenizer of that name.
            TokenizerUnusableError: Its file or the package that reads it cannot be used.
        """
        ...


@dataclass(frozen=True, slots=True)
class UpperBoundCounter:
    """Upper bound of every tokenizer that falls back to bytes.

    Such a tokenizer splits a text into pieces of at least one byte: byte-level BPE (tiktoken and what follows GPT-2)
    by construction, SentencePiece with byte fallback where it knows no larger piece. Some change the text first: they
    normalise it (NFC, NFKC), fold its case, which can make it longer (U+FDFA is 3 bytes, and 33 in NFKC), and put a
    space before it, which is the 1. Nothing tighter holds for all of them: in letters without any word, each letter is
    a token. For Chinese the bound is 2.6 to 5.5 times, for English four times what newer tokenizers count.
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
