"""Points of any dataset: their layout in the store and their vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue
from qdrant_client import models

from skillbus.contracts.embedder.embedding import SparseVector
from skillbus.indexer.domain.index.ports import EntryT_contra, Key
from skillbus.vectors import DENSE, LEXICAL
from skillbus.vectors.datasets import Dataset


@dataclass(frozen=True, slots=True)
class MadePoints:
    """Points of some entries."""

    points: list[models.PointStruct]
    whole: bool
    """Whether they have all the vectors that their collection is for."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the points of a dataset lie in a store."""

    dataset: Dataset
    id_field: str | None
    """The payload field that has an entry's id, or None where it is the id of its point.

    `project` and `content_hash` have the rest of what is compared.
    """
    keywords: tuple[str, ...]
    numbers: tuple[str, ...] = ()


class Points(Protocol[EntryT_contra]):
    """Makes the points of one dataset."""

    @property
    def layout(self) -> Layout:
        """How they lie."""
        ...

    def point_of(self, key: Key) -> str:
        """The id of an entry's point."""
        ...

    async def of(self, fingerprint: str, entries: Sequence[EntryT_contra], *, dense_required: bool) -> MadePoints:
        """Points with vectors of exactly that model, or, unless those are required, with sparse vectors alone.

        Raises:
            DenseUnavailableError: They are required, and the embedder does not give them now.
            RequestError: The embedder cannot be had.
        """
        ...


@dataclass(frozen=True, slots=True)
class Texts:
    """What is embedded of some entries, each in their order."""

    dense: Sequence[tuple[str, ...]]
    """One text or more of each entry: the direction in between their vectors is its own."""
    lexical: tuple[str, ...]
    asides: tuple[str, ...]
    """Whose words count half beside those of `lexical`."""
    mean_terms: float | None = None
    """Of lexical texts of their kind; that of tools if absent."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """What the embedder made of texts."""

    sparse: Sequence[SparseVector]
    dense: Sequence[list[float]] | None
    fingerprint: str
    """Whose dense vectors they are; `NO_MODEL` where there are none."""
    whole: bool

    def points(self, ids: Sequence[str], payloads: Sequence[dict[str, JsonValue]]) -> MadePoints:
        """Points with these vectors.

        Not validated here: the store checks what it takes, and doing it twice took as long as writing them.
        """
        points = []
        for number, (point, lexical, payload) in enumerate(zip(ids, self.sparse, payloads, strict=True)):
            vectors: dict[str, models.Vector] = {
                LEXICAL: models.SparseVector.model_construct(indices=list(lexical.indices), values=list(lexical.values))
            }
            if self.dense is not None:
                vectors[DENSE] = self.dense[number]
            points.append(models.PointStruct.model_construct(id=point, vector=vectors, payload=payload))
        return MadePoints(points, self.whole)
