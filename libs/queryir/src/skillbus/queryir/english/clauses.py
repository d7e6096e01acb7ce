"""Splits an English sentence into clauses: parts that each say one thing to do or to tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.queryir.english.lexicon.actions import INCOMPLETE_VERBS
from skillbus.queryir.english.words.items import EnglishRole, Item
from skillbus.queryir.english.words.values import ValueKind

_MAX_ITEMS: Final = 80
"""Longest clause, so that the time stays in proportion to the length of the sentence."""
_REASONS: Final = frozenset({"because", "since", "cause", "cos", "cuz"})
_REASON_OPENINGS: Final = frozenset(
    f"{subject} {verb}"
    for subject in ("i", "we", "it", "they", "there", "he", "she", "that", "you")
    for verb in (
        "am",
        "is",
        "are",
        "was",
        "were",
        "feel",
        "feels",
        "looks",
        "seems",
        "got",
        "gets",
        "can",
        "have",
        "has",
    )
) | {"i not", "we not"}
"""Openings of a sentence that tells why: `I am cold`. A question has them the other way round."""
_INSTEAD: Final = frozenset({"just", "only", "instead", "rather"})
"""Words before what a verb is about, after a clause that says what it is not about."""
_TIMES: Final = frozenset({"at", "after", "for"})
_IDLE: Final = (EnglishRole.WORD, EnglishRole.FUNCTION, EnglishRole.FILLER, EnglishRole.AND, EnglishRole.MEDIA)
_SAYING_WHAT: Final = frozenset(
    {EnglishRole.NAME, EnglishRole.TYPE, EnglishRole.ROOM, EnglishRole.VERB, EnglishRole.QUANTIFIER, EnglishRole.OTHERS}
    | {EnglishRole.EVERYWHERE, EnglishRole.EXCEPTION, EnglishRole.KEEPER, EnglishRole.NEGATION}
)
"""Roles of words that say what to do, or with what."""
_LINKING: Final = frozenset({"is", "are", "am", "was", "were"})


@dataclass(slots=True)
class Clause:
    """Part of a sentence with its own predicate."""

    items: list[Item]
    question: bool = False
    statement: bool = False
    """True for what only gives a reason: `it is too dark in the kitchen`."""
    corrected: bool = False
    """True for what the next clause corrects: `do not turn off the globe, just the arc lamp`."""


def split_clauses(items: Sequence[Item], *, question: bool = False) -> list[Clause]:
    """Split at `and`, `then`, commas and stops where both sides have a predicate of their own.

    A part without one belongs to its neighbour: `the kitchen | and the study`.
    """
    parts = _cut(items)
    merged: list[list[Item]] = []
    for part in parts:
        short = merged and len(merged[-1]) + len(part) <= _MAX_ITEMS
        if short and not part[0].stop and _belong_together(merged[-1], part):
            merged[-1] = merged[-1] + part
        else:
            merged.append(list(part))
    clauses = [
        Clause(
            part,
            question=question or _is_question(part),
            statement=_is_statement(part) or _is_interjection(part) or (_has_object(later) and _is_remark(part)),
            corrected=bool(later) and _corrects(part, later),
        )
        for part, later in zip(merged, [*merged[1:], []], strict=True)
    ]
    return [
        clause
        for clause in clauses
        if any(item.role not in (EnglishRole.AND, EnglishRole.THEN) for item in clause.items)
    ]


def _cut(items: Sequence[Item]) -> list[list[Item]]:
    parts: list[list[Item]] = [[]]
    for item in items:
        cut = (
            item.comma
            or item.stop
            or item.text in _REASONS
            or item.role in (EnglishRole.AND, EnglishRole.THEN, EnglishRole.KEEPER)
        )
        before = parts[-1]
        if len(before) >= _MAX_ITEMS or (
            cut and before and not all(one.role in (EnglishRole.AND, EnglishRole.THEN) for one in before)
        ):
            parts.append([])
        parts[-1].append(item)
    return [part for part in parts if part]


def _belong_together(before: Sequence[Item], part: Sequence[Item]) -> bool:
    if _is_statement(before) or _is_statement(part):
        return False
    if _has_object(part) and (_is_interjection(before) or (part[0].comma and _is_remark(before))):
        return False
    if _corrects(before, part):
        return False
    if part[0].role is EnglishRole.KEEPER or (before[0].role is EnglishRole.KEEPER and _is_complete(part)):
        return False
    if _is_question(before) and not _is_exception(before):
        return not _is_question(part) and not _has_verb(part)
    return not (_is_complete(before) and _is_complete(part)) and not (_is_complete(before) and _has_verb(part))


def _corrects(before: Sequence[Item], part: Sequence[Item]) -> bool:
    """Return True for the second part of `do not turn off the globe, just the arc lamp`."""
    negated = any(item.role is EnglishRole.NEGATION for item in before) and _has_verb(before)
    openings = [item.text for item in part[:2] if item.role is not EnglishRole.AND]
    return negated and not _has_verb(part) and bool(openings) and openings[0] in _INSTEAD


def _is_interjection(part: Sequence[Item]) -> bool:
    """Return True for words that name nothing and say nothing to do: `time for bed, …`."""
    return all(item.role in _IDLE for item in part) and any(item.role is EnglishRole.FUNCTION for item in part)


def _is_remark(part: Sequence[Item]) -> bool:
    """Return True for words that nobody knows, before a command of its own: `sorry, …`, `dinner is ready, …`."""
    if any(item.role in _SAYING_WHAT for item in part) or not any(item.role is EnglishRole.WORD for item in part):
        return False
    linked = any(item.text in _LINKING for item in part[1:]) and part[0].role is not EnglishRole.QUESTION
    idle = (*_IDLE, EnglishRole.REFERENCE, EnglishRole.STATE)
    return linked or all(item.role in idle or _is_vague(item) for item in part)


def _is_vague(item: Item) -> bool:
    return item.value is not None and item.value.kind is ValueKind.SOME  # a bit chilly


def _has_object(part: Sequence[Item]) -> bool:
    """Return True for a command that names what it is about."""
    named = (EnglishRole.NAME, EnglishRole.TYPE, EnglishRole.ROOM, EnglishRole.QUANTIFIER)
    return _has_verb(part) and any(item.role in named for item in part)


def _is_exception(part: Sequence[Item]) -> bool:
    return any(item.role is EnglishRole.EXCEPTION for item in part) and not _is_complete(part)


def _asks_for(texts: Sequence[str]) -> bool:
    """Return True for `can we have the lights on`."""
    return texts[1] in ("can", "have") and texts[0] == "you"


def _has_verb(part: Sequence[Item]) -> bool:
    return any(item.role is EnglishRole.VERB for item in part)


def _is_question(part: Sequence[Item]) -> bool:
    if _is_statement(part):
        return False
    question = False
    for item in part:
        if item.role is EnglishRole.QUESTION:
            question = True
        elif item.role is EnglishRole.VERB:
            return False
    return question


def _is_complete(part: Sequence[Item]) -> bool:
    """Return True for a part that says what to do."""
    verbs = [item.meaning for item in part if item.role is EnglishRole.VERB]
    if any(verb not in INCOMPLETE_VERBS for verb in verbs):
        return True
    for item in part:
        if item.role in (
            EnglishRole.PARTICLE,
            EnglishRole.STEP,
            EnglishRole.QUESTION,
            EnglishRole.BASE,
            EnglishRole.KEEPER,
        ):
            return True
        if item.role is EnglishRole.VALUE and item.value is not None and item.value.kind not in _TIMES:
            return True
    return False


def _is_statement(part: Sequence[Item]) -> bool:
    """Return True for `it is too dark here`, `I am cold`, `the bedroom is so bright`."""
    texts = " ".join(item.text for item in part).split()
    if texts[0] in _REASONS or (" ".join(texts[:2]) in _REASON_OPENINGS and not _asks_for(texts)):
        return not _has_verb(part)
    if _has_verb(part) or part[0].role is EnglishRole.QUESTION:
        return False
    if texts[0] == "too" and len(texts) > 1:
        return True  # too bright in the loft
    said = any(word in texts for word in ("is", "am", "are"))
    return said and any(word in texts for word in ("too", "so"))
