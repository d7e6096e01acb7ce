"""The record of knowledge, asked over the bus."""

import asyncio
import time
from collections.abc import Container, Sequence
from typing import Final

from skillbus.common.bus.caller import Caller
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.index import FIND_KNOWLEDGE, FindKnowledge, FoundItem, KnowledgeMatched
from skillbus.contracts.learner.knowledge import MAX_IDS
from skillbus.contracts.message import Project
from skillbus.contracts.retriever.knowledge_search import SearchKnowledge
from skillbus.retriever.domain.errors import RecordUnavailableError
from skillbus.retriever.domain.knowledge.ports import Looked

WAIT_S: Final = 5.0
"""As long as a vector store is waited for."""
_LEAST_CHARACTERS: Final = 4_000
"""Of each content: what the index lacks is scored by it, and terms are looked for in it, however little is shown."""
_OLDEST_S: Final = 60.0
"""Of candidates, as the record can be asked about them. It is waited for less."""
_PROJECTS: Final = 1_024
"""Whose projects above are remembered."""
_AWAY: Final = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.DEADLINE_EXCEEDED})


class BusRecord:
    """A `KnowledgeRecord`."""

    def __init__(self, caller: Caller, wait_s: float = WAIT_S) -> None:
        self._caller = caller
        self._wait_s = wait_s
        self._above: dict[Project, tuple[Project, ...]] = {}

    async def projects(self, request: SearchKnowledge) -> tuple[Project, ...]:
        """As they were when they were told last."""
        if not request.inherit:
            return (request.project,)
        if request.project not in self._above:
            await self._ask(_asked(request).model_copy(update={"unindexed": 0}))
        return self._above[request.project]

    async def matched(self, request: SearchKnowledge, looked: Looked) -> KnowledgeMatched:
        """All at once, in as many messages as it takes; the first asks for what the index lacks."""
        asked = _asked(request)
        named = asked.model_copy(update={"unindexed": 0})
        whole = frozenset(looked.items[: looked.whole])
        first, *others = _pages(looked.items) or ((),)
        answers = await asyncio.gather(
            self._all_of(asked, first, whole, looked.at),
            *(self._all_of(named, page, whole, looked.at) for page in others),
        )
        items: dict[str, FoundItem] = {}
        for found in (found for answer in answers for found in answer.items):
            items.setdefault(found.item.id, found)  # what the first lacks the others may have been asked for by name
        return KnowledgeMatched.model_construct(items=tuple(items.values()), projects=answers[0].projects, left=())

    async def shown(self, request: SearchKnowledge, ids: Sequence[str]) -> Sequence[FoundItem]:
        asked, whole = _asked(request).model_copy(update={"unindexed": 0}), frozenset(ids)
        answers = await asyncio.gather(*(self._all_of(asked, page, whole) for page in _pages(ids)))
        return [found for answer in answers for found in answer.items]

    async def _all_of(
        self, asked: FindKnowledge, ids: tuple[str, ...], whole: Container[str], looked_at: float | None = None
    ) -> KnowledgeMatched:
        """The answer about these, and about what it left, as one."""
        asking = {"ids": ids, "whole": sum(item in whole for item in ids), "candidates_age_s": _age_s(looked_at)}
        answer = await self._ask(asked.model_copy(update=asking))
        if not answer.left:
            return answer
        if len(answer.left) >= len(ids):
            raise RecordUnavailableError(f"The learner left all of {len(ids)} items: each is over its message")
        rest = await self._all_of(asked.model_copy(update={"unindexed": 0}), answer.left, whole, looked_at)
        return answer.model_copy(update={"items": (*answer.items, *rest.items), "left": ()})

    async def _ask(self, asked: FindKnowledge) -> KnowledgeMatched:
        try:
            answer = await self._caller.call(FIND_KNOWLEDGE, asked, timeout_s=self._wait_s, allow_local=True)
        except RequestError as error:
            if error.code not in _AWAY:
                raise
            raise RecordUnavailableError(
                f"The record of the knowledge base cannot be asked what may be shown: {error.message}"
            ) from error
        if asked.inherit:
            self._remember(asked.project, answer.projects)
        return answer

    def _remember(self, project: Project, projects: tuple[Project, ...]) -> None:
        if len(self._above) >= _PROJECTS:
            self._above.clear()
        self._above[project] = projects


def _age_s(looked_at: float | None) -> float | None:
    return None if looked_at is None else min(time.monotonic() - looked_at, _OLDEST_S)


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


def _pages(ids: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(ids[at : at + MAX_IDS]) for at in range(0, len(ids), MAX_IDS)]
