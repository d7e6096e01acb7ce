"""`skillbus knowledge search` and `skillbus knowledge context`."""

from typing import Annotated, Literal

import typer

from skillbus.cli.client.http_api import KNOWLEDGE
from skillbus.cli.knowledge.options import (
    AllTags,
    AnyTags,
    At,
    Inherit,
    Record,
    Scene,
    Scope,
    Sources,
    Types,
    build_filter,
)
from skillbus.cli.knowledge.view import format_context, render_knowledge_hits
from skillbus.cli.options import ThresholdOption, build_request
from skillbus.cli.output import clean_text
from skillbus.cli.session import Session, remote_command

Query = Annotated[str, typer.Argument(help="What you need to know, in any language.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100, help="Largest number of hits.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show why each item was found, and the stages of the search.")]
Feedback = Annotated[bool, typer.Option("--feedback/--no-feedback", help="Let ratings influence the order.")]
Budget = Annotated[int, typer.Option("--budget", metavar="TOKENS", help="Upper bound of the whole text in tokens.")]
Tokenizer = Annotated[
    str | None, typer.Option("--tokenizer", help="Tokenizer of the server that counts. Default: an upper bound.")
]
Candidates = Annotated[int, typer.Option("--candidates", min=1, max=200, help="Largest number of items to consider.")]
Use = Annotated[Literal["test_generation", "chat"], typer.Option("--use", help="Template that formats the context.")]


@remote_command(
    "skillbus knowledge search 'headers of the live API' --scope '/api/live/*'", aliases={"--top-k": "--limit"}
)
async def search_items(  # noqa: PLR0913 (one parameter for each option)
    session: Session,
    query: Query,
    *,
    scope: Scope = None,
    types: Types = None,
    tags: AnyTags = None,
    all_tags: AllTags = None,
    sources: Sources = None,
    at: At = None,
    inherit: Inherit = True,
    limit: Limit = 5,
    threshold: ThresholdOption = None,
    feedback: Feedback = True,
    scene: Scene = None,
    record: Record = True,
    explain: Explain = False,
) -> None:
    """Find the items that fit a query."""
    # Slow to import, and help pages need not wait for it.
    from skillbus.contracts.retriever.knowledge_search import KnowledgeFound, SearchKnowledge  # noqa: PLC0415

    fields = build_filter(types, tags, all_tags, sources, scope, at, inherit=inherit)
    fields |= {"query": query, "top_k": limit, "threshold": threshold, "scene": scene}
    fields |= {"feedback": None if feedback else False, "record_use": None if record else False}
    request = build_request(SearchKnowledge, fields | {"explain": explain or None})
    body = request.model_dump(mode="json", exclude_unset=True) | session.connection.scope
    found = await session.connection.request(KnowledgeFound, "POST", f"{KNOWLEDGE}/search", json=body)
    # In a pipe each hit is one line.
    out = session.output.out
    on_lines = not out.is_terminal
    session.output.show_result(
        found, lambda: render_knowledge_hits(found, out.width, explain=explain, on_lines=on_lines)
    )


@remote_command("skillbus knowledge context 'test the live API' --scope '/api/live/*' --budget 2000")
async def build_context(  # noqa: PLR0913 (one parameter for each option)
    session: Session,
    query: Query,
    *,
    budget: Budget = 4000,
    scope: Scope = None,
    types: Types = None,
    tags: AnyTags = None,
    all_tags: AllTags = None,
    sources: Sources = None,
    at: At = None,
    inherit: Inherit = True,
    use: Use = "chat",
    tokenizer: Tokenizer = None,
    candidates: Candidates = 50,
    threshold: ThresholdOption = None,
    scene: Scene = None,
    record: Record = True,
) -> None:
    """Build a context for a model from the items that fit a query, within a token budget.

    Prints the text alone to stdout; --json has its items too.
    """
    from skillbus.contracts.retriever.knowledge_search import BuildContext, ContextBuilt  # noqa: PLC0415 (as above)

    fields = build_filter(types, tags, all_tags, sources, scope, at, inherit=inherit)
    fields |= {"query": query, "budget_tokens": budget, "tokenizer": tokenizer, "candidates": candidates, "use": use}
    fields |= {"threshold": threshold, "scene": scene, "record_use": None if record else False}
    request = build_request(BuildContext, fields)
    body = request.model_dump(mode="json", exclude_unset=True) | session.connection.scope
    built = await session.connection.request(ContextBuilt, "POST", f"{KNOWLEDGE}/context", json=body)
    if session.output.as_json:
        session.output.show_result(built, str)
        return
    if built.text:
        text = clean_text(built.text) if session.output.out.is_terminal else built.text
        session.output.write_text(f"{text}\n")
    session.output.print_note(format_context(built))
