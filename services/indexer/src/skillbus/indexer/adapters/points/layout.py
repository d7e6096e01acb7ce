"""Points of any dataset: their layout in the store, their texts and their vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from skillbus.contracts.embedder.embedding import SparseVector
from skillbus.indexer.domain.index.ports import EntryT_contra, Key
from skillbus.vectors import DENSE, LEXICAL, models
from skillbus.vectors.datasets import Dataset


@dataclass(frozen=True, slots=True)
class BuiltPoints:
    """Points of some entries."""

    points: list[models.PointStruct]
    complete: bool
    """True if they have all the vectors that their collection needs."""


@dataclass(frozen=True, slots=True)
class PointLayout:
    """Layout of the points of a dataset."""

    dataset: Dataset
    id_field: str | None
    """Payload field with the entry's id; None if that is the id of the point.

    The fields `project` and `content_hash` hold the rest of what a comparison needs.
    """
    keywords: tuple[str, ...]
    numbers: tuple[str, ...] = ()


class PointBuilder(Protocol[EntryT_contra]):
    """Builds the points of one dataset."""

    @property
    def layout(self) -> PointLayout:
        """Layout of the points."""

    def make_point_id(self, key: Key) -> str:
        """Return the id of an entry's point."""

    async def build_points(
        self, fingerprint: str, entries: Sequence[EntryT_contra], *, dense_required: bool
    ) -> BuiltPoints:
        """Build points with vectors of exactly this model, or with sparse vectors only unless dense ones are required.

        Raises DenseUnavailableError if required dense vectors are unavailable, RequestError if the embedder is.
        """


@dataclass(frozen=True, slots=True)
class EntryTexts:
    """Texts of some entries, in their order."""

    dense: Sequence[tuple[str, ...]]
    """One or more texts of each entry. The entry gets the mean direction of their vectors."""
    lexical: tuple[str, ...]
    asides: tuple[str, ...]
    """Texts with words of half the weight."""
    mean_terms: float | None = None
    """Mean number of terms of such texts; that of tools if absent."""


@dataclass(frozen=True, slots=True)
class EntryVectors:
    """Vectors of some entries."""

    sparse: Sequence[SparseVector]
    dense: Sequence[list[float]] | None
    fingerprint: str
    """Fingerprint of the dense vectors; `NO_MODEL` without them."""
    complete: bool

    def build_points(self, ids: Sequence[str], payloads: Sequence[dict[str, JsonValue]]) -> BuiltPoints:
        """Build points with these vectors."""
        points = []
        for number, (point, lexical, payload) in enumerate(zip(ids, self.sparse, payloads, strict=True)):
            vectors: dict[str, models.Vector] = {
                LEXICAL: models.SparseValues(indices=list(lexical.indices), values=list(lexical.values))
            }
            if self.dense is not None:
                vectors[DENSE] = self.dense[number]
            points.append(models.PointStruct(id=point, vector=vectors, payload=payload))
        return BuiltPoints(points, self.complete)
