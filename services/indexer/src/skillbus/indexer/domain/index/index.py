"""An index behind one alias. Every write goes to each collection that needs it.

During a switch to another model a write goes to the live collection and to the other one. No write is lost when a
switch begins at the same moment, because of this order: a writer first changes the record, and then reads the state of
the switch from its store, not from a cache. There are two cases.

- The writer reads that there is no switch. Then the switch is recorded after the change. A switch reads the record of
  entries only after its own state is written, so it finds the change there.
- The writer reads that there is a switch. Then it writes to both collections.
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
from skillbus.indexer.domain.index.batches import BATCH, write_batches
from skillbus.indexer.domain.index.differences import compare_collection
from skillbus.indexer.domain.index.ports import (
    NO_MODEL,
    Collections,
    DefaultModel,
    Digested,
    EmbeddingModels,
    Entries,
    EntryT,
    Key,
    WritableCollections,
    hash_content,
)
from skillbus.indexer.domain.index.switch_record import Switches

_OTHERS_TIMEOUT_S: Final = 5.0
"""Limit for a write to a collection that is not live; verification repairs a failed one."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """The live collection and its size; None if that is unknown."""

    collection: str | None
    model: str | None
    """Fingerprint of the model."""
    points: int | None


def describe_collection(collections: Collections, model: DefaultModel | None) -> IndexModel:
    """Describe the collection for a model, or the one without dense vectors if there is no model."""
    fingerprint = model.fingerprint if model else NO_MODEL
    return IndexModel(
        collection=collections.name_collection(fingerprint),
        fingerprint=fingerprint,
        name=model.name if model else None,
        dimensions=model.dimensions if model else 1,
    )


class Index(Generic[EntryT]):
    """The index behind an alias. Methods raise IndexUnavailableError when store, embedder or bus is unavailable."""

    def __init__(
        self,
        alias: str,
        collections: WritableCollections[EntryT],
        entries: Entries[EntryT],
        switches: Switches,
        models: EmbeddingModels,
        on_model_back: Callable[[], None],
        on_write_failed: Callable[[], None],
    ) -> None:
        self.alias = alias
        self.collections = collections
        self.entries = entries
        self._switches = switches
        self._models = models
        self._on_model_back = on_model_back
        self._on_write_failed = on_write_failed
        self._opening = asyncio.Lock()
        self._without_dense: set[str] = set()
        """Collections with points that lack the vectors of their model."""

    async def put_entries(self, entries: Sequence[EntryT]) -> None:
        """Write the points of entries that are already recorded."""
        for at in range(0, len(entries), BATCH):
            batch = entries[at : at + BATCH]
            await self._write_everywhere(partial(self._write, batch))

    async def sync_entries(
        self,
        keys: Sequence[Key],
        known: Sequence[EntryT] | None = None,
        is_settled: Callable[[], Awaitable[bool]] | None = None,
        load: Callable[[Sequence[Key]], Awaitable[Sequence[EntryT]]] | None = None,
    ) -> None:
        """Write the points of entries as they are recorded now, and remove those that should not be in the index.

        The record is read again after the write: when two writers, also in two replicas, change an entry at the same
        time, the one that writes its point last sees the change of the other and writes it.

        Args:
            keys: The entries.
            known: The entries as the caller has just read them; saves the first read.
            is_settled: Returns True if nobody changed `known`; saves the last read.
            load: Replaces `Entries.load_entries`.
        """
        load = load or self.entries.load_entries
        entries = await load(keys) if known is None else known
        while keys:
            written = {entry.key: entry.digest for entry in entries}
            await self.put_entries(entries)
            await self.remove_entries([key for key in keys if key not in written])
            if is_settled is not None and await is_settled():
                return
            now = {entry.key: entry for entry in await load(keys)}
            keys = [key for key in keys if written.get(key) != (now[key].digest if key in now else None)]
            entries = [now[key] for key in keys if key in now]

    async def find_current(self, entries: Sequence[Digested]) -> frozenset[Key]:
        """Return the keys of the entries with up-to-date points."""
        if not entries:
            return frozenset()
        live = await self.open_live()
        fingerprint = self.collections.read_fingerprint(live)
        hashes = await self.collections.load_hashes(live, [entry.key for entry in entries])
        return frozenset(e.key for e in entries if hashes.get(e.key) == hash_content(e, fingerprint))

    async def remove_entries(self, keys: Sequence[Key]) -> None:
        """Remove the points of entries. Missing ones are fine."""
        if keys:
            await self._write_everywhere(lambda collection: self.collections.remove_points(collection, keys))

    async def open_live(self) -> str:
        """Return the live collection. If there is none, create and fill one first."""
        with _raise_unavailable():
            live = await self.collections.find_live()
            if live is not None:
                return live
            async with self._opening:
                return await self.collections.find_live() or await self._create_live()

    async def open_if_needed(self) -> str | None:
        """Return the live collection as `open_live`, but None if there is none and nothing to fill it with.

        An empty collection takes 50 MB in the process.
        """
        live = await self.collections.find_live()
        if live is None:
            with _raise_unavailable():
                async for _ in self.entries.iterate_entries():
                    return await self.open_live()
        return live

    async def count_points(self) -> IndexCounts:
        """Count the points of the live collection."""
        live = await self.collections.find_live()
        if live is None:
            return IndexCounts(None, None, 0)
        return IndexCounts(live, self.collections.read_fingerprint(live), await self.collections.count_points(live))

    async def _create_live(self) -> str:
        model = describe_collection(self.collections, await self._models.load_default())
        await self.entries.check_available()  # before anything is created

        async def write_keys(keys: Sequence[Key]) -> None:
            await self._write(await self.entries.load_entries(keys), model.collection)

        await self.collections.ensure_collection(model)
        differences = await compare_collection(self.collections, self.entries, model.collection)
        await write_batches(differences.unwritten, write_keys)
        await self.collections.remove_points(model.collection, differences.ghosts)
        await self.collections.point_alias(model.collection)
        log.info("collection_live", collection=model.collection, entries=differences.total)
        return model.collection

    async def _write(self, entries: Sequence[EntryT], collection: str) -> None:
        if not await self.collections.write_points(collection, entries):
            self._without_dense.add(collection)
        elif collection in self._without_dense:  # the model is back, so the next comparison should come now
            self._without_dense.discard(collection)
            self._on_model_back()

    async def _write_everywhere(self, write: Callable[[str], Awaitable[None]]) -> None:
        """Write to the live collection, which must succeed, and to the collections that a switch needs.

        After a failure the index is compared until it can be written again, because the caller may not come back.
        """
        try:
            await self._write_live_and_others(write)
        except IndexUnavailableError:
            self._on_write_failed()
            raise

    async def _write_live_and_others(self, write: Callable[[str], Awaitable[None]]) -> None:
        with _raise_unavailable():
            # The switch is read before the alias: an alias moves only after its switch was recorded, so the live
            # collection is always among those written.
            stored = await self._switches.load(self.alias)
        live = await self.open_live()
        others = (stored.record.written if stored else frozenset()) - {live}
        result, *_ = await asyncio.gather(
            write(live), *(self._try_write(write, other) for other in others), return_exceptions=True
        )
        if isinstance(result, BaseException):
            raise result

    async def _try_write(self, write: Callable[[str], Awaitable[None]], collection: str) -> None:
        """Write to a collection that is not live. Verification or the next comparison repairs a failure."""
        try:
            async with asyncio.timeout(_OTHERS_TIMEOUT_S):
                await write(collection)
        except (IndexUnavailableError, TimeoutError) as error:
            log.warning("other_collection_not_written", collection=collection, reason=repr(error))


@contextmanager
def _raise_unavailable() -> Generator[None]:
    try:
        yield
    except RequestError as error:
        raise IndexUnavailableError(str(error)) from error
