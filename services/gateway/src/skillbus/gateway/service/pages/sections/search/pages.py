"""Page of searches that shows why each hit was found, what every stage cost, and what was left out."""

import asyncio
import json
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query, Request, Response

from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.tools import LIST_TOOLS, ListTools, ToolState, ToolType
from skillbus.contracts.learner.items import LIST_KNOWLEDGE, ListKnowledge
from skillbus.contracts.learner.knowledge import KNOWN_TYPES, KnowledgeStatus
from skillbus.contracts.retriever.command_resolution import SEARCH_COMMANDS
from skillbus.contracts.retriever.knowledge_search import SEARCH_KNOWLEDGE, SearchKnowledge
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.pages.rendering import make_link, render_page
from skillbus.gateway.service.pages.sections.search.options import (
    OTHER_PREFIX,
    SearchedKind,
    SearchOptions,
    SearchPageQuery,
)
from skillbus.gateway.service.pages.sections.search.view import FoundColumn, find_scale, make_column

SEARCH_PAGE: Final = "/search"
_TYPES: Final = {SearchedKind.TOOLS: tuple(kind.value for kind in ToolType), SearchedKind.KNOWLEDGE: KNOWN_TYPES}


@dataclass(frozen=True, slots=True)
class SearchPages:
    """Handlers of the page of searches."""

    caller: BusCaller

    async def show_search(self, request: Request, page: Annotated[SearchPageQuery, Query()]) -> Response:
        """Show the hits of a search under one configuration, or under two side by side."""
        configurations = [("A", page.first), *([("B", page.second)] if page.compare else [])]
        columns: list[FoundColumn] = []
        hidden = None
        if page.query:
            searches = asyncio.gather(*(self._search(page, name, options) for name, options in configurations))
            columns, hidden = await asyncio.gather(searches, self._count_hidden(page))
        context = {
            "query": page,
            "configurations": configurations,
            "prefixes": {"A": "", "B": OTHER_PREFIX},
            "kinds": {kind: _link_kind(page, kind) for kind in SearchedKind},
            "types": _TYPES.get(page.kind, ()),
            "columns": columns,
            "hidden": hidden,
            "scale": find_scale(columns),
            "slowest_ms": max((column.took_ms for column in columns), default=0.0),
            "ranks": {column.name: column.ranks for column in columns if column.error is None},
            "toggle": _link_comparison(page),
            "line": _make_line(page),
        }
        failed = [column.error for column in columns if column.error is not None]
        status = failed[0].status if failed and len(failed) == len(columns) else 200
        return render_page(request, "search/search.html", context, project=page.project, status=status)

    async def _search(self, page: SearchPageQuery, name: str, options: SearchOptions) -> FoundColumn:
        try:
            wanted = page.make_request(options)
            if isinstance(wanted, SearchTools):
                return make_column(name, options, await self.caller.call(SEARCH_TOOLS, wanted))
            if isinstance(wanted, SearchKnowledge):
                return make_column(name, options, await self.caller.call(SEARCH_KNOWLEDGE, wanted))
            return make_column(name, options, await self.caller.call(SEARCH_COMMANDS, wanted))
        except RequestError as error:
            return make_column(name, options, error)

    async def _count_hidden(self, page: SearchPageQuery) -> int | None:
        """Return the number of entries of the project that no search finds: of tools that are not active, and of items
        that are pending or archived. None if nobody answers, or if there are no such entries of the kind."""
        try:
            if page.kind is SearchedKind.TOOLS:
                states = (ToolState.DISABLED, ToolState.QUARANTINED)
                tools = await self.caller.call(LIST_TOOLS, ListTools(project=page.project, limit=1, states=states))
                return tools.total
            if page.kind is SearchedKind.KNOWLEDGE:
                statuses = (KnowledgeStatus.PENDING, KnowledgeStatus.ARCHIVED)
                wanted = ListKnowledge(project=page.project, limit=1, statuses=statuses)
                return (await self.caller.call(LIST_KNOWLEDGE, wanted)).total
        except RequestError:
            return None
        return None


def _make_line(page: SearchPageQuery) -> str:
    """Return the line of an evaluation for this query, without what is right for it."""
    line = {"query": page.query}
    if page.kind is SearchedKind.KNOWLEDGE and page.scope:
        line["scope"] = page.scope
    return json.dumps(line, ensure_ascii=False)


def _link_kind(page: SearchPageQuery, kind: SearchedKind) -> str:
    """Return the address of the same query for another kind. Types, tags and scopes are of one kind only."""
    return make_link(page.project, SEARCH_PAGE, kind=kind.value, query=page.query)


def _link_comparison(page: SearchPageQuery) -> str:
    """Return the address that adds a second configuration, the same as the first, or removes it."""
    fields: dict[str, object] = {"kind": page.kind.value, "query": page.query, **page.first.list_fields()}
    if not page.compare:
        fields |= {"compare": "true", **page.first.list_fields(OTHER_PREFIX)}
    return make_link(page.project, SEARCH_PAGE, **fields)
