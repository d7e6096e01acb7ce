"""Ports to the index that is made from the catalogue, and to those who want to hear of changes."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from skillbus.contracts.indexer import Finding
from skillbus.indexer.domain.record import SkillRecord


@dataclass(frozen=True, slots=True)
class IndexedTool:
    """A point of the index."""

    point: str
    project: str
    name: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class IndexState:
    """What the index is."""

    collection: str | None
    model: str | None
    points: int


class ToolIndex(Protocol):
    """The index. Every method raises IndexUnavailableError when the vector store or the embedder cannot be had."""

    async def put(self, records: Sequence[SkillRecord]) -> None:
        """Index records, in place of what was indexed of them."""
        ...

    async def remove(self, project: str, name: str) -> None:
        """Take a skill out. That it is not there is fine."""
        ...

    async def remove_points(self, points: Sequence[str]) -> None:
        """Take points out by their ids."""
        ...

    def tools(self) -> AsyncIterator[IndexedTool]:
        """Every point."""
        ...

    def content_hash(self, record: SkillRecord) -> str:
        """The hash that the point of a record should have."""
        ...

    async def state(self) -> IndexState:
        """What the index is now."""
        ...


Outcome = Literal["installed", "updated", "unchanged"]
"""What became of a package."""
Change = Literal["installed", "updated", "indexed"]


class Announcer(Protocol):
    """Tells the rest of the system what happened. Methods return when it cannot be lost any more."""

    async def changed(self, change: Change, record: SkillRecord) -> None:
        """A skill was installed, updated or indexed."""
        ...

    async def removed(self, record: SkillRecord) -> None:
        """A skill was uninstalled."""
        ...

    async def taken(self, source: str, outcome: Outcome, record: SkillRecord) -> None:
        """An upload was dealt with."""
        ...

    async def rejected(self, project: str, source: str, errors: tuple[Finding, ...], *, once: bool) -> None:
        """An upload or a folder is not a valid skill; with `once`, what was said of it just now is not said again."""
        ...
