"""The index of knowledge in the vector store."""

from array import array
from collections.abc import Sequence
from typing import Final

from cachetools import LRUCache

from skillbus.contracts.scope import ANY, get_scope_key, list_ancestor_keys, split_scope
from skillbus.retriever.adapters.live_collection import LiveCollection, has_any
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex
from skillbus.retriever.domain.knowledge.ports import WantedKnowledge
from skillbus.vectors import VectorSearch, models
from skillbus.vectors.datasets import KNOWLEDGE

_KEPT_SEARCHES: Final = 256
"""Searches whose candidates are kept, some 15 kB each."""
_MOMENT_S: Final = 60.0
"""Seconds for which a search of the same text has the same candidates. The record decides who is valid now."""


class VectorKnowledge(LiveCollection):
    """A `KnowledgeIndex`: the collection behind the alias `knowledge`."""

    def __init__(self, store: VectorSearch) -> None:
        super().__init__(store, KNOWLEDGE)
        self._kept: LRUCache[tuple[object, ...], Sequence[IndexCandidate]] = LRUCache(_KEPT_SEARCHES)
        """Candidates by everything that they depend on: a search of text seen before takes half the time with them."""

    async def count_matching(self, live: LiveIndex, wanted: WantedKnowledge) -> int:
        matching = [condition for group in group_scopes(wanted.filter.scope) for condition in group]
        return await self._count(live, make_knowledge_filter(wanted, matching))

    async def find_candidates(
        self, live: LiveIndex, query: EmbeddedQuery, wanted: WantedKnowledge
    ) -> Sequence[IndexCandidate]:
        filters = [make_knowledge_filter(wanted, group) for group in group_scopes(wanted.filter.scope) or [[]]]
        revision = self._store.get_revision(live.collection)
        if revision is None:
            return await self._search(live, query, filters, wanted.count)
        dense = tuple(array("f", vector).tobytes() for vector in (query.dense or (), *query.parts))
        words = (tuple(query.indices), tuple(query.values))
        key = (live, revision, dense, words, repr(filters), wanted.count)
        if (known := self._kept.get(key)) is None:
            known = self._kept[key] = await self._search(live, query, filters, wanted.count)
        return known


def make_knowledge_filter(wanted: WantedKnowledge, scopes: Sequence[models.Condition]) -> models.Filter:
    """Return the filter of candidates with one of these scopes, or of all. The record decides about each of them.

    It passes what is valid at some time of the minute, so it is the same for a minute.
    """
    asked, began = wanted.filter, wanted.at - wanted.at % _MOMENT_S
    must: list[models.Condition] = [has_any("project", wanted.projects)]
    for key, values in (("type", asked.types), ("tags", asked.tags), ("source", asked.sources)):
        if values:
            must.append(has_any(key, values))
    must.extend(has_any("tags", (tag,)) for tag in asked.all_tags)
    must.append(models.FieldCondition(key="valid_from", range=models.Range(lte=began + _MOMENT_S)))
    must.append(models.FieldCondition(key="valid_to", range=models.Range(gt=began)))
    return models.Filter(must=must, should=list(scopes) or None)


def group_scopes(scope: str | None) -> list[list[models.Condition]]:
    """Return the conditions of the groups of scopes that are searched apart; none if no scope is asked for.

    The groups are, nearest first: the scope itself with what lies below it where it is a pattern; patterns and paths
    above it; general items. The index knows a scope by its fixed part only, so a group may hold others too.
    """
    if scope is None:
        return []
    own, *above = list_ancestor_keys(scope)
    nearest: list[models.Condition] = [has_any("scope_fixed", (own,))]
    if ANY in split_scope(scope):
        nearest.append(has_any("scope_above", (get_scope_key(scope),)))
    groups = [nearest]
    if above[:-1]:
        groups.append([has_any("scope_fixed", above[:-1])])
    if above:
        groups.append([has_any("scope_fixed", above[-1:])])
    return groups
