"""English stems by Snowball ("Porter2", M. F. Porter, 2001), in C: a microsecond a word."""

from functools import cache

from Stemmer import Stemmer  # type: ignore[import-not-found]  # the package carries no types


def stem(word: str) -> str:
    """The stem of a lower-case English word; most others come back unchanged."""
    stemmed: str = _english().stemWord(word)
    return stemmed


@cache
def _english() -> Stemmer:
    # Shared by threads: it never lets go of the interpreter's lock while it works.
    return Stemmer("english")
