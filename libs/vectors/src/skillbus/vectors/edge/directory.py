"""Files of an embedded store around Qdrant Edge's shards.

lock                           locked with flock(2) while the store is open; holds the owner's pid for error messages
aliases.json                   {"format": 1, "aliases": {alias: collection}}, replaced by an atomic rename
collections/<name>/spec.json   the CollectionSpec
collections/<name>/shard/      files of Qdrant Edge
collections/.<uuid>/           a collection in creation or deletion; removed when the store opens
"""

import fcntl
import json
import mmap
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from skillbus.vectors.errors import VectorStoreFull, VectorStoreLocked, VectorStoreUnavailable
from skillbus.vectors.store import CollectionSpec

_ALIASES: Final = "aliases.json"
_SPEC: Final = "spec.json"
_FORMAT: Final = 1
_FREE_BYTES: Final = 8 * 2**20
"""Free space that a write needs. The engine writes to mapped sparse files: on a full disk the kernel would end the
process with SIGBUS."""
_ALLOCATED_BYTES: Final = 60 * 2**20
"""Size of an empty collection on a disk that allocates the holes of its files."""


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Lock the directory. The kernel releases the lock when the process dies, however it dies.

    Raises:
        VectorStoreLocked: The directory is locked, by another process or by this one.
        VectorStoreUnavailable: The directory cannot be created or written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / "lock").open("a+")
    except OSError as error:
        raise VectorStoreUnavailable(
            f"{directory} cannot hold a vector store ({error}); make it writable or choose another directory"
        ) from error
    with file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise VectorStoreLocked(directory, f"process {lock.read().strip() or 'unknown'}") from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


class EdgeDirectory:
    """The layout above, in a directory that the caller has locked."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._collections = root / "collections"

    @cached_property
    def allocates_holes(self) -> bool:
        """True if the disk allocates a hole of a file when mapped memory is read there, as tmpfs does."""
        with TemporaryFile(dir=self._root) as file:
            file.truncate(mmap.PAGESIZE)
            with mmap.mmap(file.fileno(), mmap.PAGESIZE) as mapped:
                _ = mapped[0]
            return os.fstat(file.fileno()).st_blocks > 0

    def check_room(self, needed_bytes: int = _FREE_BYTES) -> None:
        """Raise VectorStoreFull if the disk has too little room for a write."""
        disk = os.statvfs(self._root)
        if (free_bytes := disk.f_bavail * disk.f_frsize) < needed_bytes:
            raise VectorStoreFull(self._root, free_bytes, needed_bytes)

    def check_room_for_collection(self) -> None:
        """Raise VectorStoreFull if the disk has too little room for a new collection."""
        self.check_room(_FREE_BYTES + (_ALLOCATED_BYTES if self.allocates_holes else 0))

    def sweep(self) -> None:
        """Create the layout and remove collections that a killed process left half created or half deleted."""
        self._collections.mkdir(parents=True, exist_ok=True)
        for leftover in self._collections.glob(".*"):
            shutil.rmtree(leftover)

    def list_names(self) -> list[str]:
        return sorted(entry.name for entry in self._collections.iterdir() if not entry.name.startswith("."))

    def shard_path(self, name: str) -> Path:
        return self._collections / name / "shard"

    def read_spec(self, name: str) -> CollectionSpec:
        path = self._collections / name / _SPEC
        try:
            document = json.loads(path.read_bytes())
            return TypeAdapter(CollectionSpec).validate_python(
                {key: document[key] for key in document if key != "format"}
            )
        except (OSError, ValueError, TypeError, ValidationError) as error:
            raise _unreadable(path, error) from error

    def write_spec(self, name: str, spec: CollectionSpec) -> None:
        _replace(self._collections / name / _SPEC, {"format": _FORMAT, **asdict(spec)})

    def create_staging(self) -> str:
        """Create a hidden folder for a new collection and return its name."""
        name = f".{uuid4()}"
        (self._collections / name).mkdir()
        return name

    def publish(self, staging: str, name: str) -> None:
        """Give a new collection its name, in one step that survives a power cut."""
        (self._collections / staging).rename(self._collections / name)
        _sync_directory(self._collections)

    def hide(self, name: str) -> str:
        """Rename a collection to a hidden name in one step, and return that name."""
        hidden = f".{uuid4()}"
        (self._collections / name).rename(self._collections / hidden)
        _sync_directory(self._collections)
        return hidden

    def delete_files(self, name: str) -> None:
        """Delete the files of a hidden collection; slow, and safe to call in a thread."""
        shutil.rmtree(self._collections / name)

    def read_aliases(self) -> dict[str, str]:
        path = self._root / _ALIASES
        if not path.exists():
            return {}
        try:
            document = json.loads(path.read_bytes())
            return TypeAdapter(dict[str, str]).validate_python(document["aliases"])
        except (OSError, ValueError, TypeError, KeyError, ValidationError) as error:
            raise _unreadable(path, error) from error

    def write_aliases(self, aliases: Mapping[str, str]) -> None:
        """Replace all aliases in one step."""
        _replace(self._root / _ALIASES, {"format": _FORMAT, "aliases": dict(aliases)})


def _replace(path: Path, document: Mapping[str, object]) -> None:
    staged = path.with_name(f"{path.name}.new")
    with staged.open("w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, indent=1)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unreadable(path: Path, error: Exception) -> VectorStoreUnavailable:
    return VectorStoreUnavailable(
        f"{path} cannot be read ({type(error).__name__}: {error}); restore it, or remove the vector store's directory "
        "and index everything again"
    )
