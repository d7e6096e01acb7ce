"""Pages of the review: pending items, and one of them beside what it would change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import Field

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.items import (
    GET_KNOWLEDGE,
    LIST_KNOWLEDGE,
    GetKnowledge,
    KnowledgeListed,
    KnowledgeSummary,
    ListKnowledge,
)
from skillbus.contracts.learner.knowledge import (
    IMPORTED,
    MANUAL,
    SUGGESTED,
    KnowledgeItem,
    KnowledgeSource,
    KnowledgeStatus,
    KnowledgeTypes,
)
from skillbus.contracts.learner.learned import LOG_LEARNING, TEST_LEARNING
from skillbus.contracts.learner.proposals import GET_PROPOSAL, GetProposal, WaitingProposal
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, ProjectMessage
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import ProjectInQuery
from skillbus.gateway.service.knowledge.parameters import ItemInPath
from skillbus.gateway.service.pages.rendering import render_markdown_page, render_page

REVIEW_PAGE: Final = "/review"
SOURCE_NAMES: Final[Mapping[str, str]] = {
    LOG_LEARNING: "Learned from logs",
    TEST_LEARNING: "Learned from test runs",
    SUGGESTED: "Suggested",
    IMPORTED: "Imported",
    MANUAL: "Written by hand",
}
"""Names of known sources. Another source is shown as it is."""


@dataclass(frozen=True, slots=True)
class ReviewCluster:
    """Pending items of one type and scope, which are best decided together."""

    type: str
    scope: str
    items: tuple[KnowledgeSummary, ...]


@dataclass(frozen=True, slots=True)
class ReviewGroup:
    """Pending items of one job, file or person."""

    source: str
    source_ref: str
    clusters: tuple[ReviewCluster, ...]

    @property
    def size(self) -> int:
        """Number of its items."""
        return sum(len(cluster.items) for cluster in self.clusters)


class ReviewQuery(ProjectMessage):
    """Query for one page of pending items."""

    type: KnowledgeTypes = ()
    source: KnowledgeSource | None = None
    text: Annotated[str, Field(max_length=200), WITHOUT_NUL] | None = None
    after: Annotated[str, Field(max_length=200), WITHOUT_NUL] | None = None
    before: Annotated[str, Field(max_length=200), WITHOUT_NUL] | None = None
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
        context = {"item": item, "waiting": waiting, "following": following, "source_names": SOURCE_NAMES}
        return await render_markdown_page(request, "review/candidate.html", context, project=project)

    async def _load_queue(self, page: ReviewQuery) -> dict[str, object]:
        wanted = ListKnowledge(
            project=page.project,
            statuses=(KnowledgeStatus.PENDING,),
            types=page.type,
            source=page.source,
            text=page.text,
            after=page.after,
            before=page.before,
            limit=page.limit,
        )
        listed = await self.caller.call(LIST_KNOWLEDGE, wanted)
        return {"listed": listed, "groups": group_items(listed.items), "source_names": SOURCE_NAMES, "query": page}

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


def group_items(items: Iterable[KnowledgeSummary]) -> tuple[ReviewGroup, ...]:
    """Return the items by where they come from and, within that, by type and scope. The order of the list stays."""
    groups: dict[tuple[str, str], dict[tuple[str, str], list[KnowledgeSummary]]] = {}
    for item in items:
        clusters = groups.setdefault((item.source, item.source_ref), {})
        clusters.setdefault((item.type, item.scope), []).append(item)
    return tuple(
        ReviewGroup(source, source_ref, tuple(ReviewCluster(*about, tuple(some)) for about, some in clusters.items()))
        for (source, source_ref), clusters in groups.items()
    )
