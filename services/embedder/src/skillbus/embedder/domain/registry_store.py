"""The ports of the registry: where its records are kept, how others hear of changes, and how it hears of theirs."""

from dataclasses import dataclass
from typing import Protocol

from skillbus.contracts.embedder.registry import DefaultModelChanged, ModelRecord, ProviderRecord


@dataclass(frozen=True, slots=True)
class Records:
    """Everything that is registered, as it was at one moment."""

    revision: int
    """Raised by every change."""
    providers: tuple[ProviderRecord, ...] = ()
    models: tuple[ModelRecord, ...] = ()
    """Without fingerprints: those are computed."""


class RegistryStore(Protocol):
    """Keeps the records, for all replicas."""

    async def load(self) -> Records:
        """All records, of one moment.

        Raises:
            RegistryUnavailableError: the database does not answer.
        """
        ...

    async def replace(self, seen: Records, new: Records) -> bool:
        """Keep `new` in place of `seen`, all or nothing; False, with nothing kept, when `seen` is out of date.

        Raises:
            RegistryUnavailableError: the database does not answer; whether `new` is kept is not known.
        """
        ...


class Changes(Protocol):
    """Tells others. Both wait until it is certain, and raise ChangeNotToldError when it is not."""

    async def changed(self) -> None:
        """Something in the registry is another: whoever keeps a copy reads anew."""
        ...

    async def default_changed(self, fact: DefaultModelChanged) -> None: ...


class ChangeFeed(Protocol):
    """Hears of changes that any replica made."""

    def position(self) -> int:
        """Another number than before, as soon as a change was heard or may have been missed."""
        ...

    async def listening(self) -> None:
        """Return once every change from now on will move `position`, or nothing can be said about it now."""
        ...
