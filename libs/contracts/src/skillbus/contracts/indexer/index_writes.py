"""Writes to collections of a Qdrant server, for those who keep what they read there."""

from typing import Final

from skillbus.contracts.endpoint import Feed
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.message import Message


class IndexWritten(Message):
    """A write to a collection, which succeeded or failed."""

    collection: str
    """Name of the collection, also of one that was deleted."""


INDEX_WRITTEN: Final = Feed(
    service=SERVICE,
    entity="index",
    fact="written",
    body=IndexWritten,
    summary="A write to a collection of a Qdrant server ended. It comes before the reply to the request that wrote.",
)
