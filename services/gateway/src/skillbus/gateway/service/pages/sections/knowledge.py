"""Pages of the knowledge base: list, item, editor and history."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import StringConstraints

from skillbus.contracts.errors import RequestError
from skillbus.contracts.learner.items import GET_KNOWLEDGE, LIST_KNOWLEDGE, GetKnowledge
from skillbus.contracts.learner.knowledge import (
    CONTENT_CHARACTERS,
    KNOWN_TYPES,
    TITLE_CHARACTERS,
    KnowledgeId,
    KnowledgeStatus,
    VersionNumber,
)
from skillbus.contracts.learner.versions import (
    DIFF_KNOWLEDGE,
    GET_KNOWLEDGE_HISTORY,
    DiffKnowledge,
    ListKnowledgeVersions,
)
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, Message
from skillbus.contracts.retriever.knowledge_search import SEARCH_KNOWLEDGE, SearchKnowledge
from skillbus.contracts.scope import SCOPE_CHARACTERS, ScopeMatch, match_scope, normalize_scope
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import ProjectInQuery
from skillbus.gateway.service.knowledge.parameters import ItemInPath, KnowledgePageQuery
from skillbus.gateway.service.pages.rendering import is_partial, render_markdown_page, render_page

KNOWLEDGE_PAGE: Final = "/knowledge"
_VERSIONS: Final = 50
_COMPARED_CHARACTERS: Final = 2_000
"""Beginning of a text that is compared with the known items while somebody types."""
_LEVELS: Final[Mapping[ScopeMatch, str]] = {
    ScopeMatch.EXACT: "the same scope",
    ScopeMatch.WITHIN: "within what is asked for",
    ScopeMatch.PATTERN: "a pattern that covers it",
    ScopeMatch.PARENT: "a path above it",
    ScopeMatch.GENERAL: "applies to everything",
}
ScopeText = Annotated[str, Query(max_length=SCOPE_CHARACTERS), WITHOUT_NUL]


class PreviewBody(Message):
    """Markdown to show as it will look."""

    content: Annotated[str, StringConstraints(max_length=CONTENT_CHARACTERS)]
    """Not longer than the content of an item: the time to render some Markdown grows with the square of its length."""


class SimilarBody(Message):
    """Text of an item that is being written."""

    id: KnowledgeId | None = None
    """Item that is being changed, which is not similar to itself."""
    title: Annotated[str, StringConstraints(max_length=TITLE_CHARACTERS), WITHOUT_NUL] = ""
    content: Annotated[str, StringConstraints(max_length=CONTENT_CHARACTERS), WITHOUT_NUL] = ""


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
            "found_statuses": {
                status.value: any(item.status is status for item in listed.items) for status in KnowledgeStatus
            },
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
        before: Annotated[VersionNumber | None, Query(ge=2)] = None,
    ) -> Response:
        """Show the versions of an item, and the differences of two of them."""
        wanted = ListKnowledgeVersions(project=project, id=item_id, limit=_VERSIONS, before=before)
        history = await self.caller.call(GET_KNOWLEDGE_HISTORY, wanted)
        newer = newer or history.total
        older = older or max(1, newer - 1)
        compared = DiffKnowledge(project=project, id=item_id, from_version=older, to_version=newer)
        diff = await self.caller.call(DIFF_KNOWLEDGE, compared) if older != newer else None
        context = {"history": history, "diff": diff, "older": older, "newer": newer, "before": before}
        return render_page(request, "knowledge/history.html", context, project=project)

    async def show_theirs(
        self,
        request: Request,
        item_id: ItemInPath,
        base: Annotated[VersionNumber, Query(alias="from")],
        project: ProjectInQuery = DEFAULT_PROJECT,
    ) -> Response:
        """Show what others have changed in an item since a version, for a form that began with that version."""
        current = await self.caller.call(GET_KNOWLEDGE, GetKnowledge(project=project, id=item_id))
        compared = DiffKnowledge(project=project, id=item_id, from_version=base, to_version=current.version)
        diff = await self.caller.call(DIFF_KNOWLEDGE, compared)
        return render_page(request, "knowledge/theirs.html", {"current": current, "diff": diff}, project=project)

    async def show_similar(
        self, request: Request, body: SimilarBody, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Show the items that say something similar to what is being typed. It counts as no use of them."""
        text = f"{body.title}\n{body.content}".strip()[:_COMPARED_CHARACTERS]
        wanted = SearchKnowledge(project=project, query=text, content_characters=0, record_use=False) if text else None
        try:
            found = None if wanted is None else await self.caller.call(SEARCH_KNOWLEDGE, wanted)
        except RequestError as error:
            return render_page(request, "knowledge/similar.html", {"items": (), "problem": error}, project=project)
        items = () if found is None else tuple(hit.item for hit in found.results if hit.item.id != body.id)
        return render_page(request, "knowledge/similar.html", {"items": items, "problem": None}, project=project)

    async def show_scope_match(
        self, request: Request, scope: ScopeText = "", wanted: ScopeText = "", project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Show whether a search for a scope would find an item of a scope, and how near the two are."""
        try:
            match, problem = match_scope(normalize_scope(scope), normalize_scope(wanted)), None
        except ValueError as error:
            match, problem = None, str(error)
        context = {"match": match, "problem": problem, "wanted": wanted, "levels": _LEVELS}
        return render_page(request, "knowledge/scope.html", context, project=project)

    async def show_preview(self, request: Request, body: PreviewBody) -> Response:
        """Show Markdown as it will look."""
        return await render_markdown_page(request, "knowledge/preview.html", {"content": body.content})
