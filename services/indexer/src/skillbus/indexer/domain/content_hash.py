"""The hash by which a point is told from what it should be."""

import hashlib
from typing import Final

from skillbus.indexer.domain.entries import Digested

NO_MODEL: Final = "lexical"
"""In place of a model's fingerprint: the point has a sparse vector only."""
_PAYLOAD_VERSION: Final = 2
"""Raised when what points hold is computed otherwise, so that all of every index are made again; for those of one
index, the schema of its dataset is raised."""


def content_hash(entry: Digested, fingerprint: str) -> str:
    """Of all that a point is made from: the same hash, the same point."""
    return hashlib.sha256(f"{_PAYLOAD_VERSION} {fingerprint} {entry.digest}".encode()).hexdigest()[:32]
