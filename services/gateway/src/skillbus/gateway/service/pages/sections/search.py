"""Page of searches that shows why each hit was found and what every stage cost."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import Field, StringConstraints

from skillbus.contracts.message import WITHOUT_NUL, ProjectMessage
from skillbus.contracts.retriever.command_resolution import SEARCH_COMMANDS, SearchCommands
from skillbus.contracts.retriever.knowledge_search import SEARCH_KNOWLEDGE, KnowledgeFound, SearchKnowledge
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolsFound
from skillbus.contracts.scope import Scope
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.pages.rendering import render_page

SEARCH_PAGE: Final = "/search"


class SearchedKind(StrEnum):
    """Kind of entries that a search on the page looks for."""

    TOOLS = "tools"
    KNOWLEDGE = "knowledge"
    COMMANDS = "commands"


class SearchPageQuery(ProjectMessage):
    """Search of the page. Without a query only the form is shown."""

    kind: SearchedKind = SearchedKind.TOOLS
    query: Annotated[str, StringConstraints(max_length=8_000, strip_whitespace=True), WITHOUT_NUL] = ""
    limit: int = Field(default=10, ge=1, le=100)
    threshold: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    scope: Scope = ""


@dataclass(frozen=True, slots=True)
class SearchPages:
    """Handlers of the page of searches."""

    caller: BusCaller

    async def show_search(self, request: Request, page: Annotated[SearchPageQuery, Query()]) -> Response:
        """Show the hits of a search with their reasons, and the times of its stages."""
        tools: ToolsFound | None = None
        knowledge: KnowledgeFound | None = None
        commands = None
        if page.query and page.kind is SearchedKind.TOOLS:
            wanted = SearchTools(
                project=page.project, query=page.query, limit=page.limit, threshold=page.threshold, explain=True
            )
            tools = await self.caller.call(SEARCH_TOOLS, wanted)
        elif page.query and page.kind is SearchedKind.KNOWLEDGE:
            asked = SearchKnowledge(
                project=page.project,
                query=page.query,
                scope=page.scope or None,
                top_k=page.limit,
                threshold=page.threshold,
                content_characters=300,
                record_use=False,  # whoever looks at the ranking does not use the items
                explain=True,
            )
            knowledge = await self.caller.call(SEARCH_KNOWLEDGE, asked)
        elif page.query:
            sought = SearchCommands(project=page.project, query=page.query, limit=page.limit, threshold=page.threshold)
            commands = await self.caller.call(SEARCH_COMMANDS, sought)
        context = {
            "query": page,
            "kinds": tuple(SearchedKind),
            "tools": tools,
            "knowledge": knowledge,
            "commands": commands,
            "found": tools or knowledge or commands,
        }
        return render_page(request, "search/search.html", context, project=page.project)
