"""Page of contexts for a model, and of spoken commands."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import Field, StringConstraints

from skillbus.contracts.indexer.devices import LIST_HOMES, ListHomes
from skillbus.contracts.message import WITHOUT_NUL, ProjectMessage
from skillbus.contracts.retriever.command_resolution import RESOLVE_COMMAND, CommandResolved, Parser, ResolveCommand
from skillbus.contracts.retriever.knowledge_search import BUILD_CONTEXT, BuildContext, ContextBuilt
from skillbus.contracts.retriever.query_ir import MAX_SENTENCE
from skillbus.contracts.scope import Scope
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.pages.part_answers import PartAnswer, get_part
from skillbus.gateway.service.pages.rendering import render_page

CONTEXT_PAGE: Final = "/context"
RESOLVE_PAGE: Final = f"{CONTEXT_PAGE}/resolve"


class ContextPageQuery(ProjectMessage):
    """Context to preview. Without a query only the form is shown."""

    query: Annotated[str, StringConstraints(max_length=8_000, strip_whitespace=True), WITHOUT_NUL] = ""
    scope: Scope = ""
    budget_tokens: int = Field(default=1_000, ge=1, le=100_000)


class ResolvePageQuery(ProjectMessage):
    """Spoken command to resolve. Without a sentence only the form is shown."""

    text: Annotated[str, StringConstraints(max_length=MAX_SENTENCE, strip_whitespace=True), WITHOUT_NUL] = ""
    home: Annotated[str, StringConstraints(max_length=100, strip_whitespace=True), WITHOUT_NUL] = ""
    session: Annotated[str, StringConstraints(max_length=200, strip_whitespace=True), WITHOUT_NUL] = ""
    """Dialogue whose last mentioned devices "it" stands for. Empty means none."""
    parser: Parser = "auto"
    threshold: float = Field(default=0.5, ge=0.0, le=1.0, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class ContextPages:
    """Handlers of the pages of contexts and of spoken commands."""

    caller: BusCaller

    async def show_context(self, request: Request, page: Annotated[ContextPageQuery, Query()]) -> Response:
        """Show the context of a query with its tokens, and what is left out."""
        answer: PartAnswer[ContextBuilt] = PartAnswer()
        if page.query:
            wanted = BuildContext(
                project=page.project,
                query=page.query,
                scope=page.scope or None,
                budget_tokens=page.budget_tokens,
                record_use=False,  # a preview is no use of the items
            )
            answer = await get_part(self.caller.call(BUILD_CONTEXT, wanted))
        context = {"query": page, "built": answer.value, "problem": answer.problem}
        return render_page(request, "context/preview.html", context, project=page.project, status=answer.status)

    async def show_resolution(self, request: Request, page: Annotated[ResolvePageQuery, Query()]) -> Response:
        """Show what a spoken command means, and the devices and commands that it is resolved to."""
        homes = await self.caller.call(LIST_HOMES, ListHomes(project=page.project))
        home = page.home or (homes.homes[0].home if homes.homes else "")
        answer: PartAnswer[CommandResolved] = PartAnswer()
        if page.text and home:
            wanted = ResolveCommand(
                project=page.project,
                text=page.text,
                home=home,
                session=page.session or None,
                parser=page.parser,
                threshold=page.threshold,
            )
            answer = await get_part(self.caller.call(RESOLVE_COMMAND, wanted))
        context = {
            "query": page,
            "home": home,
            "homes": homes.homes,
            "resolved": answer.value,
            "problem": answer.problem,
        }
        return render_page(request, "context/resolve.html", context, project=page.project, status=answer.status)
