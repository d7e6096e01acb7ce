"""The record of knowledge, read from the learner."""

from collections.abc import AsyncIterator, Sequence

from skillbus.common.bus.caller import Caller
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.index import (
    LIST_KNOWLEDGE_DIGESTS,
    READ_KNOWLEDGE,
    KnowledgeItemDigest,
    KnowledgeKey,
    ListKnowledgeDigests,
    ReadKnowledge,
)
from skillbus.contracts.learner.knowledge import MAX_IDS, KnowledgeItem
from skillbus.contracts.message import MSGPACK
from skillbus.indexer.domain.index.ports import Key


class BusKnowledge:
    """Asks the learner, page by page."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def load_items(self, keys: Sequence[Key]) -> Sequence[KnowledgeItem]:
        items = list[KnowledgeItem]()
        waiting = tuple(KnowledgeKey(project=project, id=item_id) for project, item_id in keys)
        while waiting:
            asked, waiting = waiting[:MAX_IDS], waiting[MAX_IDS:]
            reply = await self._caller.call(READ_KNOWLEDGE, ReadKnowledge(keys=asked), content_type=MSGPACK)
            if len(reply.left) == len(asked):
                raise RequestError(
                    ErrorCode.INTERNAL, f"The learner left out all of {len(asked)} items: none fits a message."
                )
            items += reply.items
            waiting = reply.left + waiting
        return items

    async def check_available(self) -> None:
        await self._caller.call(LIST_KNOWLEDGE_DIGESTS, ListKnowledgeDigests(limit=1))

    async def iterate_digests(self, project: str | None = None) -> AsyncIterator[KnowledgeItemDigest]:
        after: KnowledgeKey | None = None
        while True:
            page = ListKnowledgeDigests(project=project, after=after)
            reply = await self._caller.call(LIST_KNOWLEDGE_DIGESTS, page, content_type=MSGPACK)
            for item in reply.items:
                yield item
            after = reply.next
            if after is None:
                return
