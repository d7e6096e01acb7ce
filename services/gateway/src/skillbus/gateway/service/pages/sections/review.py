"""Pages of the review: pending items, and one of them beside what it would change."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import Field

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.items import GET_KNOWLEDGE, LIST_KNOWLEDGE, GetKnowledge, KnowledgeListed, ListKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeSource, KnowledgeStatus, KnowledgeTypes
from skillbus.contracts.learner.proposals import GET_PROPOSAL, GetProposal, WaitingProposal
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, ProjectMessage
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import ProjectInQuery
from skillbus.gateway.service.knowledge.parameters import ItemInPath
from skillbus.gateway.service.pages.rendering import render_markdown_page, render_page

REVIEW_PAGE: Final = "/review"


class ReviewQuery(ProjectMessage):
    """Query for one page of pending items."""

    type: KnowledgeTypes = ()
    source: KnowledgeSource | None = None
    text: Annotated[str, Field(max_length=200), WITHOUT_NUL] | None = None
    after: Annotated[str, Field(max_length=200), WITHOUT_NUL] | None = None
    limit: int = Field(default=50, ge=1, le=200)


@dataclass(frozen=True, slots=True)
class ReviewPages:
    """Handlers of the pages of the review."""

    caller: BusCaller

    async def show_queue(self, request: Request, page: Annotated[ReviewQuery, Query()]) -> Response:
        """Show the pending items, whoever proposed them."""
        return render_page(request, "review/queue.html", await self._load_queue(page), project=page.project)

    async def show_candidate(
        self, request: Request, item_id: ItemInPath, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Show a pending item, its evidence, and the differences to the item that it would change."""
        waiting = await self._load_proposal(project, item_id)
        item = waiting.item if waiting else await self._load_item(project, item_id)
        following = await self._find_following(project, item_id)
        context = {"item": item, "waiting": waiting, "following": following}
        return await render_markdown_page(request, "review/candidate.html", context, project=project)

    async def _load_queue(self, page: ReviewQuery) -> dict[str, object]:
        wanted = ListKnowledge(
            project=page.project,
            statuses=(KnowledgeStatus.PENDING,),
            types=page.type,
            source=page.source,
            text=page.text,
            after=page.after,
            limit=page.limit,
        )
        return {"listed": await self.caller.call(LIST_KNOWLEDGE, wanted), "query": page}

    async def _load_item(self, project: str, item_id: str) -> KnowledgeItem:
        return await self.caller.call(GET_KNOWLEDGE, GetKnowledge(project=project, id=item_id))

    async def _load_proposal(self, project: str, item_id: str) -> WaitingProposal | None:
        """Return the proposal of a learned item; None for one that a person or an import wrote."""
        try:
            return await self.caller.call(GET_PROPOSAL, GetProposal(project=project, id=item_id))
        except RequestError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            return None

    async def _find_following(self, project: str, item_id: str) -> str | None:
        """Return the item to review after this one: the newest of the others."""
        wanted = ListKnowledge(project=project, statuses=(KnowledgeStatus.PENDING,), limit=2)
        listed: KnowledgeListed = await self.caller.call(LIST_KNOWLEDGE, wanted)
        return next((item.id for item in listed.items if item.id != item_id), None)
