"""Ports of the registry: the store of its records, the announcer of changes, and the feed of changes."""

from dataclasses import dataclass
from typing import Protocol

from skillbus.contracts.embedder.registry import DefaultModelChanged, ModelRecord, ProviderRecord


@dataclass(frozen=True, slots=True)
class Records:
    """All providers and models at one moment."""

    revision: int
    """Incremented by every change."""
    providers: tuple[ProviderRecord, ...] = ()
    models: tuple[ModelRecord, ...] = ()
    """Without fingerprints, which are computed."""


class RegistryStore(Protocol):
    """Storage of the records, shared by all replicas. Raises RegistryUnavailableError if it does not answer."""

    async def load(self) -> Records:
        """Load all records in one snapshot."""
        ...

    async def replace(self, seen: Records, new: Records) -> bool:
        """Replace `seen` by `new` in one transaction. Return False, with nothing written, if `seen` is out of date.

        After an error `new` may or may not have been written.
        """
        ...


class RegistryChangeAnnouncer(Protocol):
    """Announces changes. Both methods wait for the acknowledgement and raise ChangeNotToldError without one."""

    async def announce_change(self) -> None:
        """Make the other replicas drop their copies of the registry."""
        ...

    async def announce_default(self, fact: DefaultModelChanged) -> None:
        """Publish the new default model."""
        ...


class ChangeFeed(Protocol):
    """Receives the changes that any replica announces."""

    @property
    def position(self) -> int:
        """Number that changes whenever a change was received or may have been missed."""
        ...

    async def wait_until_listening(self) -> None:
        """Return when every later change will move `position`, or when the connection is down."""
        ...
