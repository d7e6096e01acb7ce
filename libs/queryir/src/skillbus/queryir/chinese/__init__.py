"""Chinese: lexicon and grammar of spoken commands, for the mainland and Taiwan."""

from skillbus.queryir.chinese.grammar import read_sentence

__all__ = ["read_sentence"]
