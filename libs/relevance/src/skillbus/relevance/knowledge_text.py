"""Text policy of knowledge items: the texts of an item's dense and sparse vectors."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

MEAN_TERMS: Final = 60.0
"""Mean length of an item for BM25: 60, 100 and 120 find the same; 17, the value for tools, finds .01 to .03 less."""
PASSAGE_CHARACTERS: Final = 300
PASSAGES: Final = 8
"""Passages of a long item on the dense side, from its beginning. The lexical side reads all of it."""
_LONGEST: Final = 1_000
"""Characters of a sentence."""
_SENTENCE_END: Final = re.compile(r"(?<=[.?!;])\s+|(?<=[。？！；\n])")


def build_item_dense_texts(title: str, content: str) -> tuple[str, ...]:
    """Return at most nine texts to embed; the item's vector is the mean of theirs.

    Title and passages of some 300 characters, each embedded alone, find more than one vector of the whole: the models
    that run here blur long texts. Figures: docs/knowledge.md.
    """
    return (title, *islice(_split_passages(content), PASSAGES))


def build_item_lexical_text(title: str, content: str, tags: Sequence[str]) -> str:
    """Return the text for BM25: everything, with the title twice. Short parts come first: very long texts are cut."""
    return "\n".join((title, title, *tags, content))


def build_item_aside_text(scope: str) -> str:
    """Return the text for BM25 that counts half."""
    return scope


def _split_passages(content: str) -> Iterator[str]:
    """Yield passages of whole sentences. A sentence longer than a passage stands alone, cut."""
    passage = ""
    for sentence in _SENTENCE_END.split(content):
        if passage and len(passage) + len(sentence) > PASSAGE_CHARACTERS:
            yield passage
            passage = ""
        passage = f"{passage} {sentence.strip()[:_LONGEST]}".strip()
    if passage:
        yield passage
