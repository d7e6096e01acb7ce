"""Verbs of an English sentence: where a word is a verb, and what stands behind one."""

from typing import Final

from skillbus.queryir.english.lexicon.actions import ATTRIBUTES, PARTICLES, STEPS, VERBS
from skillbus.queryir.english.lexicon.grammar_words import FUNCTION_WORDS, LOCATIVES
from skillbus.queryir.english.lexicon.types import TYPE_WORDS
from skillbus.queryir.english.words.items import EnglishRole
from skillbus.queryir.english.words.scan import Scan, Span, get_text, make_item, match_length, match_type

_VERBAL: Final = frozenset({"on", "off", "to", "from", "up", "down", "out", "into"})

_MOST_PLAYED: Final = 8
"""Words after `play` that may say what is played."""


def match_verb(scan: Scan, position: int) -> Span | None:
    found = VERBS.match(scan.texts, position)
    if found is None:
        parted = scan.texts[position] == "light" and _list_rest(scan, position)[-1] == "up"  # light this room up
        return make_item(scan, EnglishRole.VERB, position, 1, meaning="turn_on") if parted else None
    length, verb = found
    text, after = scan.texts[position], position + length
    following = get_text(scan, after)
    if length == 1:
        noun = (scan.singulars[position],) in TYPE_WORDS and not _is_verb_here(scan, text, after)
        if noun or text == "light" or (text in ("up", "lower") and not following):
            return None
    return make_item(scan, EnglishRole.VERB, position, length, meaning=verb)


def _is_verb_here(scan: Scan, text: str, after: int) -> bool:
    """Return True if a word that may also be a device is a verb: `switch` with a particle, `lock` with an object."""
    clause = _list_rest(scan, after)
    if text in ("switch", "power"):
        return not _VERBAL.isdisjoint(clause)
    if not clause:
        return scan.subject and not scan.verb  # front door, lock
    if clause[0] in LOCATIVES or clause[0] in PARTICLES:
        return False
    return match_length(VERBS, clause, 0) < len(clause)


def _list_rest(scan: Scan, position: int) -> list[str]:
    """Return the words up to the end of the clause."""
    rest: list[str] = []
    for index in range(position, min(len(scan.texts), position + 30)):
        if scan.words[index].after_stop or scan.texts[index] in ("and", "then"):
            break
        rest.append(scan.texts[index])
    return rest


def match_late_verb(scan: Scan, position: int) -> Span | None:
    """Match a verb behind its subject: `TV unpause`, `in the kitchen turn on the lights`."""
    if not scan.subject or scan.verb not in ("", "set") or scan.question:
        return None
    text = scan.texts[position]
    noun = (scan.singulars[position],) in TYPE_WORDS or text.endswith("ing")
    if noun or text in FUNCTION_WORDS or text in PARTICLES or text in STEPS:
        return None
    if ATTRIBUTES.match(scan.texts, position) is not None or text in ("cool", "heat", "warm", "up", "down", "need"):
        return None
    return match_verb(scan, position)


def find_verb(scan: Scan) -> str:
    return next((item.text for item in reversed(scan.items) if item.role is EnglishRole.VERB), "")


def is_played(scan: Scan, position: int) -> bool:
    """Return True for a place behind the verb `play`, where unknown words are what is played: `play some jazz`."""
    if position in scan.spans or match_type(scan, position) is not None:
        return False
    for item in reversed(scan.items[-_MOST_PLAYED:]):
        if item.role not in (EnglishRole.MEDIA, EnglishRole.FUNCTION, EnglishRole.QUANTIFIER):
            return item.role is EnglishRole.VERB and item.text == "play"
        if item.text in LOCATIVES:
            return False
    return False
