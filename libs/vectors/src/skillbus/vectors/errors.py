"""Errors of the vector store.

VectorStoreError
├── VectorStoreUnavailable   the engine cannot be reached or failed; the same call may succeed later
│   └── VectorStoreFull      the disk of an embedded store has too little room for a write
├── VectorStoreLocked        the directory of an embedded store belongs to another process
└── VectorStoreRejected      the call itself is wrong; repeating it cannot help
    ├── CollectionMissing    no collection or alias has that name
    └── CollectionMismatch   a collection has that name, with vectors of another dimension
"""

from pathlib import Path


class VectorStoreError(Exception):
    """Base of this package's errors."""


class VectorStoreUnavailable(VectorStoreError):  # noqa: N818  # read as a sentence: raise VectorStoreUnavailable
    def __init__(self, reason: str) -> None:
        super().__init__(f"Qdrant connection failed: {reason}")


class VectorStoreFull(VectorStoreUnavailable):
    def __init__(self, directory: Path, free_bytes: int, needed_bytes: int) -> None:
        super().__init__(
            f"the disk of {directory} has {free_bytes / 2**20:.1f} MiB left, and a write needs "
            f"{needed_bytes / 2**20:.0f} MiB: free some space"
        )


class VectorStoreLocked(VectorStoreError):  # noqa: N818
    def __init__(self, directory: Path, owner: str) -> None:
        super().__init__(
            f"the vector store in {directory} is in use by {owner}; stop that process, choose another data directory, "
            "or let both use a Qdrant server"
        )


class VectorStoreRejected(VectorStoreError):  # noqa: N818
    """The engine, or the check before it, refused the call."""


class CollectionMissing(VectorStoreRejected):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no vector collection or alias {name!r}; create it before using it")
        self.name = name


class CollectionMismatch(VectorStoreRejected):
    def __init__(self, name: str, wanted_dim: int, found_dim: int | None) -> None:
        found = "no such dense vectors" if found_dim is None else f"dense vectors of dimension {found_dim}"
        super().__init__(
            f"collection {name!r} holds {found}, not of {wanted_dim}; put another model's vectors in a new collection"
        )
