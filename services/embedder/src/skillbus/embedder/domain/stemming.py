"""English plural stemming: the S-stemmer of D. Harman, "How effective is suffixing?", JASIS 42(1), 1991, table 1.

Of the first rule whose ending fits, only that rule is tried; its exceptions leave the word as it is. Weak on purpose:
"commits" meets "commit" and nothing else meets anything, so that it never joins words of different meaning.
"""

_SHORTEST = 4  # characters; shorter words ("bus", "gas", "ios") are no plurals more often than they are


def stem(word: str) -> str:
    """The singular of a lower-case English plural; every other word unchanged."""
    if len(word) < _SHORTEST or not word.endswith("s"):
        return word
    if word.endswith("ies"):
        return word if word[-4] in "ae" else f"{word[:-3]}y"
    if word.endswith("es"):
        return word if word[-3] in "aeo" else word[:-1]
    return word if word[-2] in "us" else word[:-1]
