"""What of an item of knowledge becomes vectors: for the index, and for a search among items that it lacks."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

MEAN_TERMS: Final = 60.0
"""What BM25 holds the length of an item against: 60, 100 and 120 find the same, 17 as for tools .01 to .03 less."""
PASSAGE_CHARACTERS: Final = 300
PASSAGES: Final = 8
"""The beginning of a long item stands for it on the dense side; the lexical side reads all of it."""
_LONGEST: Final = 1_000
"""Characters of a sentence."""
_SENTENCE_END: Final = re.compile(r"(?<=[.?!;])\s+|(?<=[。？！；\n])")


def dense_texts(title: str, content: str) -> tuple[str, ...]:
    """What the model embeds, at most nine texts: `directions.mean_of` their vectors is that of the item.

    Title and passages of some 300 characters each by itself find more than one vector of both together: the models
    that run here blur long texts. Figures: docs/knowledge.md.
    """
    return (title, *islice(_passages(content), PASSAGES))


def lexical_text(title: str, content: str, tags: Sequence[str]) -> str:
    """What BM25 reads: all of it, the title twice. What is short comes first, since very long texts are cut."""
    return "\n".join((title, title, *tags, content))


def aside_text(scope: str) -> str:
    """What counts half there."""
    return scope


def _passages(content: str) -> Iterator[str]:
    """Whole sentences together; one that is longer stands alone, cut."""
    passage = ""
    for sentence in _SENTENCE_END.split(content):
        if passage and len(passage) + len(sentence) > PASSAGE_CHARACTERS:
            yield passage
            passage = ""
        passage = f"{passage} {sentence.strip()[:_LONGEST]}".strip()
    if passage:
        yield passage
