"""An index, written wherever a change of it has to arrive.

While an index goes from one model to another, each write goes to the collection that is searched and to the other one.
Nothing can be lost between a writer and a switch that begins at the same time: a writer changes the record first,
and only then reads the state of the switch, from where it is kept and not from a copy. If it reads that there is none,
the switch is recorded later than the change, and the switch, which reads the record of entries after its own is
written, finds the change there. If it reads one, it writes to both.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.index_switch import IndexModel
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index.batches import BATCH, in_batches
from skillbus.indexer.domain.index.differences import differences
from skillbus.indexer.domain.index.ports import (
    NO_MODEL,
    Collections,
    DefaultModel,
    Digested,
    EmbeddingModels,
    Entries,
    EntryT,
    FilledCollections,
    Key,
    content_hash,
)
from skillbus.indexer.domain.index.switch_record import Switches

_OTHERS_TIMEOUT_S: Final = 5.0
"""How long a write waits for the collection that is not searched; verification writes what it did not get."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """What the index is."""

    collection: str | None
    model: str | None
    """Fingerprint of the model whose vectors it holds."""
    points: int


def model_of_index(collections: Collections, model: DefaultModel | None) -> IndexModel:
    """The collection of a model, or the one for when there is no model."""
    fingerprint = model.fingerprint if model else NO_MODEL
    return IndexModel(
        collection=collections.collection_of(fingerprint),
        fingerprint=fingerprint,
        name=model.name if model else None,
        dimensions=model.dimensions if model else 1,
    )


class Index(Generic[EntryT]):
    """The index behind one alias. Methods raise IndexUnavailableError when store, embedder or bus cannot be had."""

    def __init__(
        self,
        alias: str,
        collections: FilledCollections[EntryT],
        entries: Entries[EntryT],
        switches: Switches,
        models: EmbeddingModels,
        on_model_back: Callable[[], None],
    ) -> None:
        self.alias = alias
        self.collections = collections
        self._entries = entries
        self._switches = switches
        self._models = models
        self._on_model_back = on_model_back
        self._opening = asyncio.Lock()
        self._owed: set[str] = set()
        """Collections that got points without the vectors of their model."""

    async def put(self, entries: Sequence[EntryT]) -> None:
        """Index entries that are recorded already, in place of what was indexed of them."""
        for at in range(0, len(entries), BATCH):
            batch = entries[at : at + BATCH]
            await self._everywhere(partial(self._write, batch))

    async def follow(
        self,
        keys: Sequence[Key],
        known: Sequence[EntryT] | None = None,
        settled: Callable[[], Awaitable[bool]] | None = None,
        read: Callable[[Sequence[Key]], Awaitable[Sequence[EntryT]]] | None = None,
    ) -> None:
        """Index entries as the record has them now, or as is `known` of them; take out what is not to be found.

        Read again once it is written: of two that change an entry at the same time, here or in two replicas, the one
        whose point is written last sees what the other made of the record, and writes that. `settled` may spare it
        that: it tells whether nobody has changed what was known. `read` reads the record in place of `Entries.of`.
        """
        read = read or self._entries.of
        entries = await read(keys) if known is None else known
        while keys:
            written = {entry.key: entry.digest for entry in entries}
            await self.put(entries)
            await self.remove([key for key in keys if key not in written])
            if settled is not None and await settled():
                return
            now = {entry.key: entry for entry in await read(keys)}
            keys = [key for key in keys if written.get(key) != (now[key].digest if key in now else None)]
            entries = [now[key] for key in keys if key in now]

    async def holds(self, entries: Sequence[Digested]) -> frozenset[Key]:
        """Those of them that are indexed as they are."""
        if not entries:
            return frozenset()
        live = await self.live()
        fingerprint = self.collections.fingerprint_of(live)
        hashes = await self.collections.hashes(live, [entry.key for entry in entries])
        return frozenset(e.key for e in entries if hashes.get(e.key) == content_hash(e, fingerprint))

    async def remove(self, keys: Sequence[Key]) -> None:
        """Take out entries that are not to be found any more. That they are not there is fine."""
        if keys:
            await self._everywhere(lambda collection: self.collections.remove(collection, keys))

    async def live(self) -> str:
        """The collection that is searched; made and filled first when there is none."""
        with _unavailable():
            live = await self.collections.live()
            if live is not None:
                return live
            async with self._opening:
                return await self.collections.live() or await self._open()

    async def opened(self) -> str | None:
        """The same, but None while there is none and nothing to fill it with: an empty one takes 50 MB in process."""
        live = await self.collections.live()
        if live is None and not await self._has_entries():
            return None
        return live or await self.live()

    async def counts(self) -> IndexCounts:
        """What the index is now."""
        live = await self.collections.live()
        if live is None:
            return IndexCounts(None, None, 0)
        return IndexCounts(live, self.collections.fingerprint_of(live), await self.collections.count(live))

    async def _has_entries(self) -> bool:
        with _unavailable():
            async for _ in self._entries.all():
                return True
        return False

    async def _write(self, entries: Sequence[EntryT], collection: str) -> None:
        if not await self.collections.write(collection, entries):
            self._owed.add(collection)
        elif collection in self._owed:  # the model is back: what it owes need not wait for the next comparison
            self._owed.discard(collection)
            self._on_model_back()

    async def _open(self) -> str:
        model = model_of_index(self.collections, await self._models.default())
        await self._entries.check()  # nothing is made for a record that cannot be had
        await self.collections.ensure(model)
        differing = await differences(self.collections, self._entries, model.collection)
        await in_batches(differing.unwritten, partial(self._write_keys, model.collection))
        await self.collections.remove(model.collection, differing.ghosts)
        await self.collections.point_alias(model.collection)
        log.info("collection_live", collection=model.collection, entries=differing.total)
        return model.collection

    async def _write_keys(self, collection: str, keys: Sequence[Key]) -> None:
        await self._write(await self._entries.of(keys), collection)

    async def _everywhere(self, write: Callable[[str], Awaitable[None]]) -> None:
        """Write to the collection that is searched, which must succeed, and to what a switch needs written."""
        with _unavailable():
            # In this order: the alias moves after its switch was recorded, so the searched one is among those written.
            stored = await self._switches.get(self.alias)
        live = await self.live()
        others = (stored.record.written if stored else frozenset()) - {live}
        searched, *_ = await asyncio.gather(
            write(live), *(self._attempt(write, other) for other in others), return_exceptions=True
        )
        if isinstance(searched, BaseException):
            raise searched

    async def _attempt(self, write: Callable[[str], Awaitable[None]], collection: str) -> None:
        """Write to a collection that is not searched: verification, or the next comparison, mends what fails here."""
        try:
            async with asyncio.timeout(_OTHERS_TIMEOUT_S):
                await write(collection)
        except (IndexUnavailableError, TimeoutError) as error:
            log.warning("other_collection_not_written", collection=collection, reason=repr(error))


@contextmanager
def _unavailable() -> Generator[None]:
    try:
        yield
    except RequestError as error:
        raise IndexUnavailableError(str(error)) from error
