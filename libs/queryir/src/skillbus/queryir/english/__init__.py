"""English: lexicon and grammar."""

from skillbus.queryir.english.grammar import read_sentence

__all__ = ["read_sentence"]
