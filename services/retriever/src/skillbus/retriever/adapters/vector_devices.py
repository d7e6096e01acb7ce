"""The index of devices in the vector store."""

from collections.abc import Sequence
from typing import Final

from skillbus.relevance.score import compute_rarest_idf
from skillbus.retriever.adapters.live_collection import LiveCollection, as_unavailable, has_any
from skillbus.retriever.domain.index import QueryEmbedder
from skillbus.vectors import VectorSearch, models
from skillbus.vectors.datasets import DEVICES

_LEAST_SCORE: Final = 0.3
"""Score of a similar name. With the default model none of 16 words for other things (火箭, my car) scored above 0.24;
of 21 other words for the devices of two homes (冷气, cooker hood) all did 0.3 or more."""
_OF_BEST: Final = 0.5
"""Least share of the best score: beside a near match, far ones are no choice."""


class VectorDevices(LiveCollection):
    """A `SimilarDevices`: the collection behind the alias `devices`."""

    def __init__(self, store: VectorSearch, embedder: QueryEmbedder) -> None:
        super().__init__(store, DEVICES)
        self._embedder = embedder

    async def find_similar_devices(self, project: str, home: str, name: str, limit: int) -> Sequence[str]:
        live = await self.find_live_index()
        if live is None:
            return ()
        query = await self._embedder.embed_query(name, (), live.fingerprint)
        among = models.Filter(must=[has_any("project", (project,)), has_any("home", (home,))])
        candidates = await self._search(live, query, [among], limit)
        rarest = compute_rarest_idf(live.items)
        scores = {one.id: query.relevance.compute_score(one.cosine, (one.bm25 or 0.0) / rarest) for one in candidates}
        least = max(_LEAST_SCORE, _OF_BEST * max(scores.values(), default=0.0))
        near = sorted((point for point, score in scores.items() if score >= least), key=lambda p: -scores[p])
        if not near:
            return ()
        with as_unavailable():
            records = await self._store.retrieve(live.collection, near[:limit], with_payload=("device_id",))
        ids = {record.id: str((record.payload or {})["device_id"]) for record in records}
        return [ids[point] for point in near if point in ids]
