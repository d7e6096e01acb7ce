"""Pages of the knowledge base: list, item, editor and history."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import StringConstraints

from skillbus.contracts.learner.items import GET_KNOWLEDGE, LIST_KNOWLEDGE, GetKnowledge
from skillbus.contracts.learner.knowledge import CONTENT_CHARACTERS, KNOWN_TYPES, KnowledgeStatus, VersionNumber
from skillbus.contracts.learner.versions import (
    DIFF_KNOWLEDGE,
    GET_KNOWLEDGE_HISTORY,
    DiffKnowledge,
    ListKnowledgeVersions,
)
from skillbus.contracts.message import DEFAULT_PROJECT, Message
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import ProjectInQuery
from skillbus.gateway.service.knowledge.parameters import ItemInPath, KnowledgePageQuery
from skillbus.gateway.service.pages.rendering import is_partial, render_markdown_page, render_page

KNOWLEDGE_PAGE: Final = "/knowledge"
_VERSIONS: Final = 50


class PreviewBody(Message):
    """Markdown to show as it will look."""

    content: Annotated[str, StringConstraints(max_length=CONTENT_CHARACTERS)]
    """Not longer than the content of an item: the time to render some Markdown grows with the square of its length."""


@dataclass(frozen=True, slots=True)
class KnowledgePages:
    """Handlers of the pages of the knowledge base."""

    caller: BusCaller

    async def show_list(self, request: Request, page: Annotated[KnowledgePageQuery, Query()]) -> Response:
        """Show one page of items. The filters are in the address."""
        listed = await self.caller.call(LIST_KNOWLEDGE, page.to_request())
        template = "knowledge/rows.html" if is_partial(request) else "knowledge/list.html"
        context = {
            "listed": listed,
            "query": page,
            "filters": page.model_dump(mode="json", exclude_defaults=True, exclude={"project", "after", "before"}),
            "types": KNOWN_TYPES,
            "statuses": tuple(KnowledgeStatus),
        }
        return render_page(request, template, context, project=page.project)

    async def show_new_item(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show the form of a new item."""
        return render_page(request, "knowledge/editor.html", {"item": None, "types": KNOWN_TYPES}, project=project)

    async def show_item(
        self,
        request: Request,
        item_id: ItemInPath,
        project: ProjectInQuery = DEFAULT_PROJECT,
        version: VersionNumber | None = None,
    ) -> Response:
        """Show an item, as it is or as it was at a version."""
        item = await self.caller.call(GET_KNOWLEDGE, GetKnowledge(project=project, id=item_id, version=version))
        context = {"item": item, "is_old": version is not None}
        return await render_markdown_page(request, "knowledge/item.html", context, project=project)

    async def edit_item(
        self, request: Request, item_id: ItemInPath, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Show the form of an item."""
        item = await self.caller.call(GET_KNOWLEDGE, GetKnowledge(project=project, id=item_id))
        return await render_markdown_page(
            request, "knowledge/editor.html", {"item": item, "types": KNOWN_TYPES}, project=project
        )

    async def show_history(
        self,
        request: Request,
        item_id: ItemInPath,
        project: ProjectInQuery = DEFAULT_PROJECT,
        older: Annotated[VersionNumber | None, Query(alias="from")] = None,
        newer: Annotated[VersionNumber | None, Query(alias="to")] = None,
    ) -> Response:
        """Show the versions of an item, and the differences of two of them."""
        wanted = ListKnowledgeVersions(project=project, id=item_id, limit=_VERSIONS)
        history = await self.caller.call(GET_KNOWLEDGE_HISTORY, wanted)
        latest = history.versions[0].version
        newer = newer or latest
        older = older or max(1, newer - 1)
        compared = DiffKnowledge(project=project, id=item_id, from_version=older, to_version=newer)
        diff = await self.caller.call(DIFF_KNOWLEDGE, compared) if older != newer else None
        context = {"history": history, "diff": diff, "older": older, "newer": newer}
        return render_page(request, "knowledge/history.html", context, project=project)

    async def show_preview(self, request: Request, body: PreviewBody) -> Response:
        """Show Markdown as it will look."""
        return await render_markdown_page(request, "knowledge/preview.html", {"content": body.content})
