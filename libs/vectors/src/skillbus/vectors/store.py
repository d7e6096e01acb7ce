"""The port: what indexer and retriever ask of a vector store, in the words of Qdrant's own models.

Every collection has one dense vector named `dense` (cosine) and one sparse vector named `lexical` (dot product with
the IDF modifier); a point may lack either. Point ids are UUIDs as text; `point_id` makes one from a key.
Wherever a collection is named, an alias does as well, except in `ensure_collection`, `delete_collection` and as the
target of an alias.
Every method may raise `VectorStoreUnavailable`; those that take a collection may raise `CollectionMissing`; arguments
that the engine cannot hold (an id that is no UUID, NaN, a repeated sparse index, a wrong dimension) raise
`VectorStoreRejected` before anything is written of the chunk that holds them.
Points are filtered by the fields that their collection names for it; the embedded engine refuses others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID, uuid5

from qdrant_client import models

DENSE: Final = "dense"
LEXICAL: Final = "lexical"

_POINTS: Final = UUID("8f0e5a6c-2f0b-5d0e-9f6b-6a1d3f1c7b52")

PayloadFields = bool | Sequence[str]
"""True: the whole payload; False: none; names: only these top-level or dotted keys."""

VectorNames = bool | Sequence[str]
"""True: both vectors; False: none; names: those."""


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """What a collection is created with, before the first point: indexes made later would not serve filtered HNSW."""

    dim: int
    """Length of the dense vectors, ≥ 1."""
    keywords: tuple[str, ...] = ()
    """Payload fields that are filtered by exact value (of a string or of any string in a list)."""
    numbers: tuple[str, ...] = ()
    """Payload fields that are filtered by range; of points without one, no range holds."""
    tenant: str = "project"
    """The payload field that every query filters by; a server lays its data out by it."""


@dataclass(slots=True)
class Hit:
    """A point that a query found. What is stored at it is fetched by `retrieve`, for those that are wanted."""

    id: str
    score: float
    """A cosine on the dense side, BM25 on the lexical."""


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """The state of the engine at the time of asking."""

    ready: bool
    engine: str
    """Name and version, or where it should have been."""
    notices: tuple[str, ...] = ()
    """What an operator should know: why it is not ready, or that it has outgrown this engine."""


class VectorSearch(Protocol):
    """The reading side: all that a retriever needs."""

    async def resolve_alias(self, alias: str) -> str | None:
        """Name the collection behind an alias, or None when nothing has that alias."""
        ...

    async def query(self, collection: str, requests: Sequence[models.QueryRequest]) -> list[list[Hit]]:
        """Answer several nearest-neighbour queries in one call, in their order, best first.

        `using` is `dense` with a list of floats, or `lexical` with a `SparseVector`. The limit is 10 unless given, ≥ 1.
        Dense scores are cosines to the precision of float16 (0.0001): it is what vectors are stored in, half the memory
        and two thirds of the time of a scan. The embedded engine scans all points; a server may approximate (HNSW).
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
        """Fetch points by id, in no promised order; ids that are not there are left out."""
        ...

    async def count(self, collection: str, condition: models.Filter | None = None) -> int:
        """Count exactly."""
        ...

    async def health(self) -> StoreHealth:
        """Tell the state; never raises a `VectorStoreError`."""
        ...


class VectorCollections(Protocol):
    """Collections and the aliases in front of them: the blue/green side of an indexer."""

    async def ensure_collection(self, name: str, spec: CollectionSpec) -> bool:
        """Create the collection and its payload indexes where they are missing; True when it was created.

        Raises:
            CollectionMismatch: it exists with another dimension.
        """
        ...

    async def delete_collection(self, name: str) -> bool:
        """Delete a collection with its points and aliases; False when there was none."""
        ...

    async def list_collections(self) -> list[str]:
        """Name all collections, sorted."""
        ...

    async def switch_aliases(self, targets: Mapping[str, str]) -> None:
        """Point each alias at its collection, all in one operation: a reader sees all of them old or all new."""
        ...


class VectorPoints(Protocol):
    """The writing side of an indexer. A write that returned is seen by the next query and survives the process."""

    async def upsert(self, collection: str, points: Sequence[models.PointStruct], *, insert_only: bool = False) -> None:
        """Write points whole, in chunks; with `insert_only`, points that exist keep what they have.

        Not atomic beyond a chunk: after an error the earlier chunks are written; repeat the call, it is idempotent.
        """
        ...

    async def delete(self, collection: str, selection: Sequence[str] | models.Filter) -> None:
        """Delete by ids (those not there do not matter) or by a filter, which must hold a condition."""
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
        """Read a page of at most `limit` points in order of id, and the offset of the next page or None at the end."""
        ...

    async def flush(self) -> None:
        """Have everything written so far survive a power cut as well."""
        ...


class VectorStore(VectorSearch, VectorCollections, VectorPoints, Protocol):
    """The whole store, owned by whoever opened it."""

    async def close(self) -> None:
        """Flush and let go of the engine; calls after it raise `VectorStoreUnavailable`. Closing again does nothing."""
        ...


def point_id(*key: str) -> str:
    """Derive the id of a point from its key, for example (project, kind, name): the same key, the same id."""
    return str(uuid5(_POINTS, "".join(f"{len(part)}:{part}" for part in key)))
