"""The port of the vector store.

Every collection has one dense vector named `dense` (cosine) and one sparse vector named `lexical` (dot product with
the IDF modifier); a point may lack either. Point ids are UUIDs as text; `point_id` derives one from a key.
An alias can stand for a collection everywhere except in `ensure_collection`, `delete_collection` and as the target of
an alias.
Every method may raise `VectorStoreUnavailable`; those with a collection may raise `CollectionMissing`. Arguments that
the engine cannot store (an id that is not a UUID, NaN, a repeated sparse index, a wrong dimension) raise
`VectorStoreRejected` before any part of their chunk is written.
Filters may read only the fields that the collection is indexed by; the embedded engine refuses others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID, uuid5

from skillbus.vectors import models

DENSE: Final = "dense"
LEXICAL: Final = "lexical"

_POINTS: Final = UUID("8f0e5a6c-2f0b-5d0e-9f6b-6a1d3f1c7b52")

PayloadFields = bool | Sequence[str]
"""True: the whole payload; False: none; names: only these top-level or dotted keys."""

VectorNames = bool | Sequence[str]
"""True: both vectors; False: none; names: those."""


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """Properties of a new collection. Indexes come before the first point, or filtered HNSW would not use them."""

    dim: int
    """Length of the dense vectors, ≥ 1."""
    keywords: tuple[str, ...] = ()
    """Payload fields that are filtered by exact value (of a string or of any string in a list)."""
    numbers: tuple[str, ...] = ()
    """Payload fields that are filtered by range; points without the field pass no range."""
    tenant: str = "project"
    """Payload field that every query filters by; a server stores points of one tenant together."""


@dataclass(slots=True)
class Hit:
    """A point that a query found. `retrieve` returns its payload and vectors."""

    id: str
    score: float
    """Cosine on the dense side, BM25 on the lexical side."""


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """State of the engine."""

    ready: bool
    engine: str
    """Name and version; its address if it does not answer."""
    notices: tuple[str, ...] = ()
    """Messages for the operator: the reason why it is not ready, or that the data has outgrown the engine."""


class VectorSearch(Protocol):
    """Reading side of the store, for the retriever."""

    async def resolve_alias(self, alias: str) -> str | None:
        """Return the collection behind an alias; None if the alias does not exist."""
        ...

    async def query(self, collection: str, requests: Sequence[models.QueryRequest]) -> list[list[Hit]]:
        """Answer several nearest-neighbour queries in one call, in their order, best first.

        `using` is `dense` with a list of floats, or `lexical` with `SparseValues`. The limit is 10 unless given, ≥ 1.
        Dense scores are cosines with the precision of float16 (0.0001): vectors are stored so, which takes half the
        memory and two thirds of the time of a scan. The embedded engine scans all points; a server may approximate
        (HNSW).
        """
        ...

    async def retrieve(
        self,
        collection: str,
        ids: Sequence[str],
        *,
        with_payload: PayloadFields = True,
        with_vectors: VectorNames = False,
    ) -> list[models.Record]:
        """Return points by id, in any order; ids that do not exist are left out."""
        ...

    def get_revision(self, collection: str) -> int | None:
        """Return a number that every write to the collection changes; None where others may write unnoticed.

        What was read at one revision may be kept for as long as it stays the same.
        """
        ...

    async def count(self, collection: str, condition: models.Filter | None = None) -> int:
        """Return the exact number of points that pass the filter."""
        ...

    async def health(self) -> StoreHealth:
        """Return the state. Never raises a `VectorStoreError`."""
        ...


class VectorCollections(Protocol):
    """Collections and aliases, for the indexer's switch between models."""

    async def ensure_collection(self, name: str, spec: CollectionSpec) -> bool:
        """Create the collection and its payload indexes if they are missing. Return True if it was created.

        Raises:
            CollectionMismatch: The collection exists with another dimension.
        """
        ...

    async def delete_collection(self, name: str) -> bool:
        """Delete a collection with its points and aliases. Return False if it does not exist."""
        ...

    async def list_collections(self) -> list[str]:
        """Return the names of all collections, sorted."""
        ...

    async def switch_aliases(self, targets: Mapping[str, str]) -> None:
        """Point each alias at its collection in one operation: readers see all old or all new targets."""
        ...


class VectorPoints(Protocol):
    """Writing side of the store, for the indexer. A finished write is visible to the next query and survives a kill."""

    async def upsert(self, collection: str, points: Sequence[models.PointStruct], *, insert_only: bool = False) -> None:
        """Write whole points in chunks. With `insert_only`, existing points stay as they are.

        Atomic for each chunk only: after an error the earlier chunks are written. Repeat the call; it is idempotent.
        """
        ...

    async def delete(self, collection: str, selection: Sequence[str] | models.Filter) -> None:
        """Delete points by ids, which need not exist, or by a filter, which must have a condition."""
        ...

    async def scroll(
        self,
        collection: str,
        *,
        condition: models.Filter | None = None,
        limit: int = 256,
        offset: str | None = None,
        with_payload: PayloadFields = True,
        with_vectors: VectorNames = False,
    ) -> tuple[list[models.Record], str | None]:
        """Return a page of at most `limit` points in order of id, and the offset of the next page, None at the end."""
        ...

    async def flush(self) -> None:
        """Write everything to disk, so that it survives a power cut."""
        ...


class VectorStore(VectorSearch, VectorCollections, VectorPoints, Protocol):
    """The whole store. It belongs to the code that opened it."""

    async def close(self) -> None:
        """Flush and release the engine. Later calls raise `VectorStoreUnavailable`; closing again does nothing."""
        ...


def point_id(*key: str) -> str:
    """Derive the id of a point from its key, for example (project, kind, name). The same key gives the same id."""
    return str(uuid5(_POINTS, "".join(f"{len(part)}:{part}" for part in key)))
