"""Reading of a sentence, and the function that each language has for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.queryir.home import Home
from skillbus.queryir.writing import FoldedText

Language = Literal["zh", "en"]


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """Commands of a sentence, in its order."""

    language: Language
    queries: tuple[QueryIR, ...] = ()
    """Empty if the sentence is no command. The confidence of a query is 1, less what stayed unread, was guessed, or is
    missing."""
    unread: tuple[str, ...] = ()
    """Parts of the sentence that nobody understood, in their original spelling."""


SentenceReader = Callable[[FoldedText, Home | None], ParsedSentence]
"""Grammar of a language: `read_sentence` of `skillbus.queryir.chinese` and `skillbus.queryir.english`. It accepts any
text, never raises, and takes time in proportion to the length of the text."""
