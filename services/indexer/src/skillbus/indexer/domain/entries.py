"""What an index is made of, whatever it is of: entries, each a point of every collection of the index."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, TypeVar

Key = tuple[str, str]
"""Project and id of an entry."""


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
