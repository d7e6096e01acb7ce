"""What an index is made of, whatever it is of: entries, each a point of every collection of the index."""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from skillbus.contracts.indexer.index_switch import IndexModel

Key = tuple[str, str]
"""Project and id of an entry."""
NO_MODEL: Final = "lexical"
"""In place of a model's fingerprint: the point has a sparse vector only."""
_PAYLOAD_VERSION: Final = 2
"""Raised when what points hold is computed otherwise, so that all of every index are made again; for those of one
index, the schema of its dataset is raised."""


class Digested(Protocol):
    """Something that is to be found, and what it is told from another by."""

    @property
    def key(self) -> Key:
        """Whose it is."""
        ...

    @property
    def digest(self) -> str:
        """Of all that its point is made from."""
        ...


EntryT = TypeVar("EntryT", bound=Digested)
"""An entry whole, as its point is made from it."""
EntryT_co = TypeVar("EntryT_co", bound=Digested, covariant=True)
EntryT_contra = TypeVar("EntryT_contra", bound=Digested, contravariant=True)


class Entries(Protocol[EntryT_co]):
    """What an index is made from, read from the record each time. Methods raise RequestError when it cannot be had."""

    async def check(self) -> None:
        """Find out whether they can be had."""
        ...

    def all(self, project: str | None = None) -> AsyncIterator[Digested]:
        """Everything that is to be found."""
        ...

    async def of(self, keys: Sequence[Key]) -> Sequence[EntryT_co]:
        """Those of them that are to be found."""
        ...


@dataclass(frozen=True, slots=True)
class IndexedPoint:
    """A point of a collection."""

    key: Key
    """Whose point it is."""
    content_hash: str


class Collections(Protocol):
    """Collections and the alias before them. Every method raises IndexUnavailableError when the store cannot be had."""

    def collection_of(self, fingerprint: str) -> str:
        """The collection of a model's vectors."""
        ...

    def fingerprint_of(self, collection: str) -> str:
        """Whose vectors a collection holds; `NO_MODEL` of one without."""
        ...

    async def live(self) -> str | None:
        """What the alias points at."""
        ...

    async def names(self) -> frozenset[str]:
        """Every collection of the index that there is."""
        ...

    async def ensure(self, model: IndexModel) -> None:
        """Make a collection if it is missing."""
        ...

    async def point_alias(self, collection: str) -> None:
        """Have the alias point at a collection, in one operation."""
        ...

    async def delete(self, collection: str) -> None:
        """Remove a collection. That it is not there is fine."""
        ...

    async def count(self, collection: str) -> int:
        """Points of a collection."""
        ...

    def scan(self, collection: str) -> AsyncIterator[IndexedPoint]:
        """Every point of a collection."""
        ...

    async def hashes(self, collection: str, keys: Sequence[Key]) -> Mapping[Key, str]:
        """The content hashes of those of `keys` that have a point."""
        ...

    async def remove(self, collection: str, keys: Sequence[Key]) -> None:
        """Take entries out. That they are not there is fine."""
        ...


class FilledCollections(Collections, Protocol[EntryT_contra]):
    """Collections that are written."""

    async def write(
        self,
        collection: str,
        entries: Sequence[EntryT_contra],
        *,
        insert_only: bool = False,
        dense_required: bool = False,
    ) -> bool:
        """Embed entries with the model of the collection and write their points; tells whether that model could be had.

        Without it they are written with sparse vectors alone, and content hashes that tell so; with `dense_required`
        that raises DenseUnavailableError instead. With `insert_only`, points that exist stay.
        """
        ...


@dataclass(frozen=True, slots=True)
class DefaultModel:
    """The model that texts are to be embedded by."""

    name: str
    fingerprint: str
    dimensions: int


class EmbeddingModels(Protocol):
    """What the embedder says of models."""

    async def default(self) -> DefaultModel | None:
        """The default model; None when there is none that gives vectors. Raises RequestError when nobody answers."""
        ...

    def known(self, fingerprint: str) -> DefaultModel | None:
        """A model that `default` told of before; None of others."""
        ...


def content_hash(entry: Digested, fingerprint: str) -> str:
    """Of all that a point is made from: the same hash, the same point."""
    return hashlib.sha256(f"{_PAYLOAD_VERSION} {fingerprint} {entry.digest}".encode()).hexdigest()[:32]
