"""The vectors computed last, in memory."""

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole


@dataclass(frozen=True, slots=True)
class CacheKey:
    """What a vector depends on. `text` is normalised."""

    fingerprint: str
    role: TextRole
    text: str


@dataclass(slots=True)
class VectorCache:
    """Least recently used goes first; each role has its own places, so that indexing does not drive out queries.

    A place costs the vector (2 kB at 512 dimensions) and the text.
    """

    places_a_role: int = 8192
    _rows: dict[TextRole, OrderedDict[CacheKey, NDArray[np.float32]]] = field(
        default_factory=lambda: {role: OrderedDict() for role in TextRole}
    )

    def get(self, key: CacheKey) -> NDArray[np.float32] | None:
        rows = self._rows[key.role]
        row = rows.get(key)
        if row is not None:
            rows.move_to_end(key)
        return row

    def put(self, key: CacheKey, row: NDArray[np.float32]) -> None:
        rows = self._rows[key.role]
        rows[key] = row
        rows.move_to_end(key)
        if len(rows) > self.places_a_role:
            rows.popitem(last=False)
