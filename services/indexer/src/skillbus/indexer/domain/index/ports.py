"""Entries of an index, and ports to their record, to the collections of points and to the embedder's models."""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from skillbus.contracts.indexer.index_switch import IndexModel

Key = tuple[str, str]
"""Project and id of an entry."""
NO_MODEL: Final = "lexical"
"""Fingerprint of points that have a sparse vector only."""
_PAYLOAD_VERSION: Final = 2
"""Raised when the content of points changes, so that every index is built again. A change that concerns one index
raises the schema of its dataset instead."""


class Digested(Protocol):
    """An entry that should be in the index, as far as a comparison needs it."""

    @property
    def key(self) -> Key:
        """Project and id."""

    @property
    def digest(self) -> str:
        """Digest of everything that its point is made from."""


EntryT = TypeVar("EntryT", bound=Digested)
"""A complete entry, from which its point is made."""
EntryT_co = TypeVar("EntryT_co", bound=Digested, covariant=True)
EntryT_contra = TypeVar("EntryT_contra", bound=Digested, contravariant=True)


class Entries(Protocol[EntryT_co]):
    """The record that an index is made from. Methods raise RequestError when it is unavailable."""

    async def check_available(self) -> None:
        """Raise RequestError if the record is unavailable."""

    def iterate_entries(self, project: str | None = None) -> AsyncIterator[Digested]:
        """Yield every entry that should be in the index."""

    async def load_entries(self, keys: Sequence[Key]) -> Sequence[EntryT_co]:
        """Return the entries of these keys that should be in the index."""


@dataclass(frozen=True, slots=True)
class IndexedPoint:
    """A point of a collection."""

    key: Key
    content_hash: str


class Collections(Protocol):
    """Collections of points and their alias. Methods raise IndexUnavailableError when the store is unavailable."""

    def name_collection(self, fingerprint: str) -> str:
        """Return the name of the collection for a model."""

    def read_fingerprint(self, collection: str) -> str:
        """Return the fingerprint of the model of a collection; `NO_MODEL` if it has no dense vectors."""

    async def find_live(self) -> str | None:
        """Return the collection that the alias points to."""

    async def list_names(self) -> frozenset[str]:
        """Return the names of all collections of the index."""

    async def ensure_collection(self, model: IndexModel) -> None:
        """Create a collection if it is missing."""

    async def point_alias(self, collection: str) -> None:
        """Move the alias to a collection, atomically."""

    async def delete_collection(self, collection: str) -> None:
        """Delete a collection. A missing one is fine."""

    async def count_points(self, collection: str) -> int:
        """Return the number of points of a collection."""

    def scan_points(self, collection: str) -> AsyncIterator[IndexedPoint]:
        """Yield every point of a collection."""

    async def load_hashes(self, collection: str, keys: Sequence[Key]) -> Mapping[Key, str]:
        """Return the content hashes of the keys that have a point."""

    async def remove_points(self, collection: str, keys: Sequence[Key]) -> None:
        """Remove the points of entries. Missing ones are fine."""


class WritableCollections(Collections, Protocol[EntryT_contra]):
    """Collections that can be written."""

    async def write_points(
        self,
        collection: str,
        entries: Sequence[EntryT_contra],
        *,
        insert_only: bool = False,
        dense_required: bool = False,
    ) -> bool:
        """Embed entries with the model of the collection and write their points. Return False without that model.

        Without the model the points get sparse vectors only, and a content hash that says so; points that are up to
        date keep their dense vectors. With `dense_required` DenseUnavailableError is raised instead. With
        `insert_only` existing points stay.
        """


@dataclass(frozen=True, slots=True)
class DefaultModel:
    """The default embedding model."""

    name: str
    fingerprint: str
    dimensions: int


class EmbeddingModels(Protocol):
    """The embedder's models."""

    async def load_default(self) -> DefaultModel | None:
        """Return the default model, or None if none gives vectors. Raises RequestError when nobody answers."""

    def recall_model(self, fingerprint: str) -> DefaultModel | None:
        """Return a model that `load_default` returned before."""


def hash_content(entry: Digested, fingerprint: str) -> str:
    """Return the content hash of an entry's point. Equal hashes mean equal points."""
    return hashlib.sha256(f"{_PAYLOAD_VERSION} {fingerprint} {entry.digest}".encode()).hexdigest()[:32]
