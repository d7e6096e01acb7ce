"""The cache of vectors: least recently used first, one part for each role."""

import numpy as np

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.domain.inference.batcher import VectorCache
from skillbus.embedder.domain.inference.lanes import VectorKey

ROW = np.ones(3, np.float32)


def key(text: str, role: TextRole = TextRole.QUERY) -> VectorKey:
    return VectorKey("0" * 12, role, text)


def test_the_vector_that_was_used_least_recently_is_evicted() -> None:
    cache = VectorCache(places_per_role=2)
    cache.store_row(key("old but used"), ROW)
    cache.store_row(key("newer"), ROW)
    assert cache.find_row(key("old but used")) is ROW
    cache.store_row(key("newest"), ROW)
    assert cache.find_row(key("old but used")) is ROW
    assert cache.find_row(key("newer")) is None


def test_documents_do_not_evict_queries() -> None:
    cache = VectorCache(places_per_role=1)
    cache.store_row(key("query"), ROW)
    cache.store_row(key("document", TextRole.DOCUMENT), ROW)
    assert cache.find_row(key("query")) is ROW
