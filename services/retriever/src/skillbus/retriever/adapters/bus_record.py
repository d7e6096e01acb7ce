"""The record of knowledge, asked over the bus."""

import asyncio
from collections.abc import Sequence
from typing import Final

from cachetools import LRUCache

from skillbus.common.bus.caller import Caller
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.index import FIND_KNOWLEDGE, FindKnowledge, FoundItem, KnowledgeMatched
from skillbus.contracts.learner.knowledge import MAX_IDS
from skillbus.contracts.message import Project
from skillbus.contracts.retriever.knowledge_search import SearchKnowledge
from skillbus.retriever.domain.errors import RecordUnavailableError

WAIT_S: Final = 5.0
"""Timeout of a request, the same as a vector store's."""
_LEAST_CHARACTERS: Final = 4_000
"""Characters of each content at least: the query's terms are looked for in it, however little is shown."""
_PROJECTS: Final = 1_024
"""Number of projects with remembered effective projects."""
_AWAY: Final = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.DEADLINE_EXCEEDED})


class BusRecord:
    """A `KnowledgeVisibility`."""

    def __init__(self, caller: Caller, wait_s: float = WAIT_S) -> None:
        self._caller = caller
        self._wait_s = wait_s
        self._effective: LRUCache[Project, tuple[Project, ...]] = LRUCache(_PROJECTS)

    def recall_projects(self, request: SearchKnowledge) -> tuple[Project, ...]:
        own = (request.project,)
        return self._effective.get(request.project, own) if request.inherit else own

    async def confirm_candidates(self, request: SearchKnowledge, ids: Sequence[str]) -> KnowledgeMatched:
        """Ask in one message, or at once in as many as the ids take."""
        asked = FindKnowledge(
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
        pages = [tuple(ids[at : at + MAX_IDS]) for at in range(0, max(len(ids), 1), MAX_IDS)]
        answers = await asyncio.gather(*(self._ask_all(asked, page) for page in pages))
        if request.inherit:
            self._effective[request.project] = answers[0].projects
        items = tuple(found for answer in answers for found in answer.items)
        return answers[0].model_copy(update={"items": items})

    async def _ask_all(self, asked: FindKnowledge, ids: tuple[str, ...]) -> KnowledgeMatched:
        """Ask about these ids, and again about those that did not fit into the reply."""
        items: list[FoundItem] = []
        while True:
            try:
                answer = await self._caller.call(
                    FIND_KNOWLEDGE, asked.model_copy(update={"ids": ids}), timeout_s=self._wait_s, allow_local=True
                )
            except RequestError as error:
                if error.code not in _AWAY:
                    raise
                raise RecordUnavailableError(
                    f"The record of the knowledge base cannot be asked what may be shown: {error.message}"
                ) from error
            items += answer.items
            if not answer.left:
                return answer.model_copy(update={"items": tuple(items)})
            if len(answer.left) >= len(ids):
                raise RecordUnavailableError(f"The learner returned none of {len(ids)} items: each exceeds a message")
            ids = answer.left
