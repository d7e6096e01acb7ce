"""What tests of the index of knowledge look at."""

from skillbus.vectors import VectorStore
from skillbus.vectors.datasets import KNOWLEDGE


async def versions(store: VectorStore) -> dict[tuple[str, str], int]:
    """Of every item that has a point."""
    found, offset = dict[tuple[str, str], int](), None
    while True:
        page, offset = await store.scroll(KNOWLEDGE.alias, offset=offset)
        for point in page:
            payload = point.payload or {}
            found[payload["project"], payload["item_id"]] = payload["version"]
        if offset is None:
            return found
