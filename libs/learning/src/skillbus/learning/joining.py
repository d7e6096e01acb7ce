"""Joining of the items of several files."""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from skillbus.contracts.learner.learned import MAX_EVIDENCE, LearnedItem, LearnedKind
from skillbus.learning.suspicion import scan_learned

_RECALLED: Final = re.compile(r"\[K-[0-9A-Za-z-]{4,64} v\d{1,9}\]")
"""Citation that contexts give each item: a text with it was recalled from the knowledge base, not observed."""


def join_items(items: Iterable[LearnedItem], limit: int) -> tuple[LearnedItem, ...]:
    """Return the items, those that say the same joined, the surest first, at most `limit`.

    Left out are items whose evidence was recalled from the knowledge base, and settings that have several values.
    Items that seem to give instructions to a model are marked.
    """
    joined: dict[object, LearnedItem] = {}
    for item in items:
        observed = tuple(quote for quote in item.evidence if not _RECALLED.search(quote.quote))
        if not observed:
            continue
        kept = item.model_copy(update={"evidence": observed})
        said = item.statement
        key = (item.kind, item.scope, said.subject, said.predicate, said.value, said.polarity)
        joined[key] = kept if key not in joined else _join(joined[key], kept)
    values: dict[object, set[str]] = defaultdict(set)
    for item in joined.values():
        values[_get_topic(item)].add(item.statement.value)
    stable = [
        item for item in joined.values() if item.kind is not LearnedKind.CONFIG or len(values[_get_topic(item)]) == 1
    ]
    stable.sort(key=lambda item: -item.confidence.low)
    return tuple(map(_mark_instructions, stable[:limit]))


def _join(first: LearnedItem, second: LearnedItem) -> LearnedItem:
    surer = first if first.confidence.low >= second.confidence.low else second
    union = {
        "evidence": (*first.evidence, *second.evidence)[:MAX_EVIDENCE],
        "seen": first.seen + second.seen,
        "tests": tuple(dict.fromkeys((*first.tests, *second.tests))),
        "fixed_by": tuple(dict.fromkeys((*first.fixed_by, *second.fixed_by))),
    }
    return surer.model_copy(update=union)


def _get_topic(item: LearnedItem) -> object:
    return item.kind, item.scope, item.statement.subject, item.statement.predicate


def _mark_instructions(item: LearnedItem) -> LearnedItem:
    texts = (item.title, item.content, *(quote.quote for quote in item.evidence))
    return item.model_copy(update={"addresses_assistant": True}) if scan_learned(texts) else item
