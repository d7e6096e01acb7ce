"""Copies of the embedded vector store, one for each worker, which follow every write.

Qdrant Edge locks a directory for one process, so a worker searches a copy of its own (ADR 0036). A write ends when it
is done in all copies: whichever process is asked next finds it.
"""

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from skillbus.standalone.workers.channel import ChannelClosedError, Handlers, ProcessChannel
from skillbus.vectors import CollectionSpec, VectorStore, VectorStoreError, models

COPY_STORE: Final = "copy_store"
APPLY_WRITE: Final = "apply_write"
_APPLY_TIMEOUT_S: Final = 20.0
"""Longest wait for a copy, which may still be loading. A worker that takes longer is ended, and copies again."""
_CHUNK: Final = 100
"""Points between two turns of the event loop, as in the store itself. Each chunk is done everywhere or nowhere."""
_BLOCK_BYTES: Final = 2**20
_NO_COPY: Final = frozenset({"lock"})

ResultT = TypeVar("ResultT")

log = structlog.get_logger(__name__)


class CopiedVectorStore:
    """A `VectorStore` whose writes are repeated in copies. Everything else is the store's own."""

    def __init__(self, store: VectorStore, path: Path) -> None:
        """Make the store of the directory `path`."""
        self._store = store
        self._path = path
        self._channels: set[ProcessChannel] = set()
        self._writing = asyncio.Lock()
        self.resolve_alias, self.query, self.retrieve = store.resolve_alias, store.query, store.retrieve
        self.get_revision, self.count, self.health = store.get_revision, store.count, store.health
        self.list_collections, self.scroll = store.list_collections, store.scroll
        self.flush, self.close = store.flush, store.close

    async def ensure_collection(self, name: str, spec: CollectionSpec) -> bool:
        return await self._write(self._store.ensure_collection, name, spec)

    async def delete_collection(self, name: str) -> bool:
        return await self._write(self._store.delete_collection, name)

    async def switch_aliases(self, targets: Mapping[str, str]) -> None:
        await self._write(self._store.switch_aliases, dict(targets))

    async def upsert(self, collection: str, points: Sequence[models.PointStruct], *, insert_only: bool = False) -> None:
        for start in range(0, len(points) or 1, _CHUNK):
            chunk = list(points[start : start + _CHUNK])
            await self._write(self._store.upsert, collection, chunk, insert_only=insert_only)

    async def delete(self, collection: str, selection: Sequence[str] | models.Filter) -> None:
        await self._write(self._store.delete, collection, selection)

    async def add_copy(self, path: Path, channel: ProcessChannel) -> None:
        """Copy the files to a new directory. From then on, writes are repeated by the process at the channel."""
        async with self._writing:
            await self._store.flush()
            await asyncio.to_thread(copy_files, self._path, path)
            self._channels.add(channel)

    async def _write(self, write: Callable[..., Awaitable[ResultT]], *arguments: object, **options: object) -> ResultT:
        """Write here, then in the copies. A write that has begun ends everywhere, also if its caller is cancelled."""
        return await asyncio.shield(self._write_everywhere(write, arguments, options))

    async def _write_everywhere(
        self, write: Callable[..., Awaitable[ResultT]], arguments: tuple[object, ...], options: dict[str, object]
    ) -> ResultT:
        async with self._writing:
            result = await write(*arguments, **options)
            name, channels = write.__name__, tuple(self._channels)
            await asyncio.gather(*(self._repeat_in(channel, name, arguments, options) for channel in channels))
            return result

    async def _repeat_in(
        self, channel: ProcessChannel, name: str, arguments: tuple[object, ...], options: dict[str, object]
    ) -> None:
        """Repeat a write in a copy. A copy that fails must not be searched: its process starts again with another."""
        try:
            async with asyncio.timeout(_APPLY_TIMEOUT_S):
                await channel.call(APPLY_WRITE, name, arguments, options)
        except ChannelClosedError:
            self._channels.discard(channel)  # its process has ended
        except (VectorStoreError, OSError) as error:  # TimeoutError is an OSError
            self._channels.discard(channel)
            channel.close()
            log.error("store_copy_failed", write=name, error=str(error) or type(error).__name__)  # noqa: TRY400


class StoreCopy:
    """The copy of this process, which repeats the writes of the main process."""

    def __init__(self, open_store: Callable[[Path], AbstractAsyncContextManager[VectorStore]]) -> None:
        self._open_store = open_store
        self._opened: asyncio.Future[VectorStore] = asyncio.get_running_loop().create_future()

    def list_handlers(self) -> Handlers:
        """Return the function that the main process calls."""

        async def apply(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
            store = await self._opened
            await _find_write(store, name)(*arguments, **options)

        return {APPLY_WRITE: apply}

    @asynccontextmanager
    async def open_copy(self, channel: ProcessChannel, path: Path) -> AsyncGenerator[VectorStore]:
        """Open a new copy at `path` while the context is open."""
        await channel.call(COPY_STORE, path)
        try:
            async with self._open_store(path) as store:
                self._opened.set_result(store)
                yield store
        finally:
            shutil.rmtree(path, ignore_errors=True)


def _find_write(store: VectorStore, name: str) -> Callable[..., Any]:
    writes = (store.ensure_collection, store.delete_collection, store.switch_aliases, store.upsert, store.delete)
    return next(write for write in writes if write.__name__ == name)


def copy_files(source: Path, target: Path) -> None:
    """Copy a directory of a store. Holes stay holes: the files of 10,000 tools have 59 MB of 264 on the disk."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for entry in source.iterdir():
        if entry.is_dir():
            if not entry.name.startswith("."):  # a collection in creation or deletion
                copy_files(entry, target / entry.name)
        elif entry.name not in _NO_COPY:
            _copy_file(entry, target / entry.name)


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as read, target.open("wb") as written:
        size = os.fstat(read.fileno()).st_size
        written.truncate(size)
        at = 0
        while at < size:
            try:
                at = os.lseek(read.fileno(), at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # a hole up to the end
                    return
                raise
            end = os.lseek(read.fileno(), at, os.SEEK_HOLE)
            while at < end:
                block = os.pread(read.fileno(), min(_BLOCK_BYTES, end - at), at)
                if not block:
                    return
                at += os.pwrite(written.fileno(), block, at)
