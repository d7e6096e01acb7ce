"""The index of knowledge in the vector store."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from qdrant_client import models

from skillbus.contracts.retriever.knowledge_search import KnowledgeFilter
from skillbus.contracts.scope import ANY, get_scope_key, list_ancestor_keys, split_scope
from skillbus.retriever.adapters.live_collection import LiveCollection, any_of, terms_of
from skillbus.retriever.domain.index import LiveIndex
from skillbus.retriever.domain.knowledge.ports import IndexedItem, WantedKnowledge
from skillbus.retriever.domain.query import EmbeddedQuery
from skillbus.retriever.domain.tools.ranking import Candidate
from skillbus.vectors import VectorSearch
from skillbus.vectors.datasets import KNOWLEDGE

_VERSION: Final = "version"


class VectorKnowledge:
    """Searches the collection behind the alias `knowledge`."""

    def __init__(self, store: VectorSearch) -> None:
        self._collection = LiveCollection(store, KNOWLEDGE)

    async def live(self) -> LiveIndex | None:
        return await self._collection.live()

    async def passing(self, live: LiveIndex, wanted: WantedKnowledge) -> int:
        return await self._collection.passing(live, condition_of(wanted))

    async def candidates(self, live: LiveIndex, query: EmbeddedQuery, wanted: WantedKnowledge) -> Sequence[Candidate]:
        return await self._collection.candidates(live, query, condition_of(wanted), wanted.count)

    async def again(self, live: LiveIndex, query: EmbeddedQuery, items: Sequence[str]) -> Mapping[str, IndexedItem]:
        """The versions first: what is compared after that is of these, or newer."""
        records = await self._collection.retrieve(live, items, (_VERSION,))
        versions = {str(record.id): record.payload[_VERSION] for record in records if record.payload}
        if not versions:
            return {}
        scored = await self._collection.scored(live, query, tuple(versions))
        return {one.id: IndexedItem(one, versions[one.id]) for one in scored}

    async def terms(self, live: LiveIndex, items: Sequence[str]) -> Mapping[str, Container[int]]:
        records = await self._collection.retrieve(live, items, False, weights=True)
        return {str(record.id): terms_of(record) for record in records}


def condition_of(wanted: WantedKnowledge) -> models.Filter:
    """All that the index knows of what is asked for; the scope roughly: the record decides."""
    asked = wanted.filter
    must: list[models.Condition] = [any_of("project", wanted.projects)]
    for key, values in (("type", asked.types), ("tags", asked.tags), ("source", asked.sources)):
        if values:
            must.append(any_of(key, values))
    must.extend(any_of("tags", (tag,)) for tag in asked.all_tags)
    must.append(models.FieldCondition(key="valid_from", range=models.Range(lte=wanted.at)))
    must.append(models.FieldCondition(key="valid_to", range=models.Range(gt=wanted.at)))
    return models.Filter(must=must, should=list(_scopes(asked)) or None)


def _scopes(asked: KnowledgeFilter) -> Iterator[models.Condition]:
    """Each of these lets an item pass; none where no scope is asked for."""
    if asked.scope is None:
        return
    yield any_of("scope_fixed", list_ancestor_keys(asked.scope))
    if ANY in split_scope(asked.scope):
        yield any_of("scope_above", (get_scope_key(asked.scope),))
