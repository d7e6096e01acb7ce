"""Cache of recent vectors, in memory."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole


@dataclass(frozen=True, slots=True)
class VectorKey:
    """Everything a vector depends on. `text` is normalised."""

    fingerprint: str
    role: TextRole
    text: str


class VectorCache:
    """LRU cache with separate places for each role, so that indexing does not evict queries.

    A place costs the vector (2 kB at 512 dimensions) and the text.
    """

    def __init__(self, places_per_role: int = 8192) -> None:
        self._rows: Mapping[TextRole, LRUCache[VectorKey, NDArray[np.float32]]] = {
            role: LRUCache(places_per_role) for role in TextRole
        }

    def find_row(self, key: VectorKey) -> NDArray[np.float32] | None:
        return self._rows[key.role].get(key)

    def store_row(self, key: VectorKey, row: NDArray[np.float32]) -> None:
        self._rows[key.role][key] = row
