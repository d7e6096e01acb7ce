"""What of an item of knowledge becomes vectors: for the index, and for a search among items that it lacks."""

from collections.abc import Sequence
from typing import Final

_DENSE_CHARACTERS: Final = 1_000


def dense_text(title: str, content: str) -> str:
    """What the model embeds."""
    return f"{title}\n{content[:_DENSE_CHARACTERS]}"


def lexical_text(title: str, content: str, tags: Sequence[str]) -> str:
    """What BM25 reads: all of it."""
    return "\n".join((title, content, *tags))


def aside_text(scope: str) -> str:
    """What counts half there."""
    return scope
