"""Vectors behind one port: a Qdrant server, or Qdrant Edge inside the process."""

from skillbus.vectors.errors import (
    CollectionMismatch,
    CollectionMissing,
    VectorStoreError,
    VectorStoreFull,
    VectorStoreLocked,
    VectorStoreRejected,
    VectorStoreUnavailable,
)
from skillbus.vectors.opening import open_vector_store
from skillbus.vectors.store import (
    DENSE,
    LEXICAL,
    CollectionSpec,
    Hit,
    PayloadFields,
    StoreHealth,
    VectorCollections,
    VectorNames,
    VectorPoints,
    VectorSearch,
    VectorStore,
    point_id,
)

__all__ = [
    "DENSE",
    "LEXICAL",
    "CollectionMismatch",
    "CollectionMissing",
    "CollectionSpec",
    "Hit",
    "PayloadFields",
    "StoreHealth",
    "VectorCollections",
    "VectorNames",
    "VectorPoints",
    "VectorSearch",
    "VectorStore",
    "VectorStoreError",
    "VectorStoreFull",
    "VectorStoreLocked",
    "VectorStoreRejected",
    "VectorStoreUnavailable",
    "open_vector_store",
    "point_id",
]
