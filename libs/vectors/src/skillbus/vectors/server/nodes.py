"""Nodes of one Qdrant cluster, of which a call takes the next one when the last cannot be reached."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from skillbus.vectors.errors import VectorStoreUnavailable
from skillbus.vectors.server.failures import translate_error

NodeT = TypeVar("NodeT")
ReplyT = TypeVar("ReplyT")


class ServerNodes(Generic[NodeT]):
    """Clients of the nodes. Calls go to one of them as long as it answers.

    Every call of the store may be repeated: writes name whole points by their ids.
    """

    def __init__(self, urls: str, nodes: Sequence[NodeT], timeout_s: float) -> None:
        self.urls: Final = urls
        """Addresses as a person reads them."""
        self.nodes: Final = tuple(nodes)
        self._timeout_s = timeout_s
        self._current = 0

    async def call_node(self, call: Callable[[NodeT], Awaitable[ReplyT]], collection: str | None = None) -> ReplyT:
        """Call the current node, and the others in turn while a node is unavailable, all within the time limit.

        A node that hangs gets an equal part of the time that is left.
        """
        until = time.monotonic() + self._timeout_s
        failures = 0
        while True:
            at = self._current
            left = len(self.nodes) - failures
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic()) / left):
                    return await call(self.nodes[at])
            except Exception as error:
                failure = translate_error(error, collection)
                failures += 1
                if failures == len(self.nodes) or not isinstance(failure, VectorStoreUnavailable):
                    raise failure from error
                if self._current == at:  # otherwise another call has moved on already
                    self._current = (at + 1) % len(self.nodes)
