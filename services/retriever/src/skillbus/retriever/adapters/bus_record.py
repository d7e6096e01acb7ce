"""The record of knowledge, asked over the bus."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from skillbus.common.bus.caller import Caller
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.knowledge import MAX_IDS
from skillbus.contracts.knowledge_index import FIND_KNOWLEDGE, FindKnowledge, FoundItem, KnowledgeMatched
from skillbus.contracts.knowledge_search import SearchKnowledge
from skillbus.retriever.domain.errors import RecordUnavailableError

WAIT_S: Final = 5.0
"""As long as a vector store is waited for."""
_LEAST_CHARACTERS: Final = 4_000
"""Of each content: what the index lacks is scored by it, and terms are looked for in it, however little is shown."""
_AWAY: Final = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.DEADLINE_EXCEEDED})


class BusRecord:
    """A `KnowledgeRecord`."""

    def __init__(self, caller: Caller, wait_s: float = WAIT_S) -> None:
        self._caller = caller
        self._wait_s = wait_s

    async def lacking(self, request: SearchKnowledge) -> KnowledgeMatched:
        return await self._ask(_asked(request))

    async def shown(self, request: SearchKnowledge, ids: Sequence[str]) -> Sequence[FoundItem]:
        """All at once, in as many messages as it takes."""
        asked = _asked(request).model_copy(update={"unindexed": 0})
        pages = await asyncio.gather(*(self._all_of(asked, page) for page in _pages(ids)))
        return [found for page in pages for found in page]

    async def _all_of(self, asked: FindKnowledge, ids: tuple[str, ...]) -> list[FoundItem]:
        found: list[FoundItem] = []
        while ids:
            matched = await self._ask(asked.model_copy(update={"ids": ids}))
            found.extend(matched.items)
            if len(matched.left) >= len(ids):
                raise RecordUnavailableError(f"The learner left all of {len(ids)} items: each is over its message")
            ids = matched.left
        return found

    async def _ask(self, asked: FindKnowledge) -> KnowledgeMatched:
        try:
            return await self._caller.call(FIND_KNOWLEDGE, asked, timeout_s=self._wait_s)
        except RequestError as error:
            if error.code not in _AWAY:
                raise
            raise RecordUnavailableError(
                f"The record of the knowledge base cannot be asked what may be shown: {error.message}"
            ) from error


def _asked(request: SearchKnowledge) -> FindKnowledge:
    return FindKnowledge(
        project=request.project,
        inherit=request.inherit,
        types=request.types,
        tags=request.tags,
        all_tags=request.all_tags,
        sources=request.sources,
        scope=request.scope,
        at=request.at,
        content_characters=max(request.content_characters, _LEAST_CHARACTERS),
    )


def _pages(ids: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(ids[at : at + MAX_IDS]) for at in range(0, len(ids), MAX_IDS))
