"""`skillbus knowledge search` and `skillbus knowledge context`."""

from enum import StrEnum
from typing import Annotated

import typer

from skillbus.cli.knowledge import search_view as knowledge_hits
from skillbus.cli.knowledge.options import (
    OPTIONS,
    AllTags,
    AnyTags,
    At,
    Inherit,
    Kinds,
    Record,
    Scope,
    Threshold,
    filters,
)
from skillbus.cli.session import Session
from skillbus.cli.text import plain


class Use(StrEnum):
    """As `skillbus.contracts.knowledge_search.BuildContext.use`, which is slow to import; a test compares the two."""

    TEST_GENERATION = "test_generation"
    CHAT = "chat"


Query = Annotated[str, typer.Argument(help="What is wanted, in any language.")]
Sources = Annotated[list[str] | None, typer.Option("--source", help="Only items from there; repeatable.")]
TopK = Annotated[int, typer.Option("--top-k", min=1, max=100, help="How many items at most.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show why each item was found, and what the search did.")]
Feedback = Annotated[bool, typer.Option("--feedback/--no-feedback", help="Whether what people said moves items.")]
Scene = Annotated[str | None, typer.Option("--scene", help="What it is for, for the statistics.")]
Budget = Annotated[int, typer.Option("--budget", metavar="TOKENS", help="Never more than that, all told.")]
Tokenizer = Annotated[
    str | None, typer.Option("--tokenizer", help="Whose tokens: one that the server has; an upper bound if absent.")
]
Candidates = Annotated[int, typer.Option("--candidates", min=1, max=200, help="Items that may come into it.")]
WrittenFor = Annotated[Use, typer.Option("--use", help="Name of the template that writes it.")]


async def search(  # noqa: PLR0913 (one parameter an option)
    session: Session,
    query: Query,
    *,
    scope: Scope = None,
    kinds: Kinds = None,
    tags: AnyTags = None,
    all_tags: AllTags = None,
    sources: Sources = None,
    at: At = None,
    inherit: Inherit = True,
    top_k: TopK = 5,
    threshold: Threshold = None,
    feedback: Feedback = True,
    scene: Scene = None,
    record: Record = True,
    explain: Explain = False,
) -> None:
    """Find the knowledge that fits a query."""
    from skillbus.cli.request_fields import request_of  # noqa: PLC0415 (slow)
    from skillbus.contracts.retriever.knowledge_search import SearchKnowledge  # noqa: PLC0415 (slow)

    fields = filters(kinds, tags, all_tags, sources, scope, at, inherit=inherit)
    fields |= {"query": query, "top_k": top_k, "threshold": threshold, "scene": scene}
    fields |= {"feedback": None if feedback else False, "record_use": None if record else False}
    asked = request_of(SearchKnowledge, fields | {"explain": explain or None}, OPTIONS)
    found = await session.knowledge.search(asked.model_dump(mode="json", exclude_unset=True))
    on_lines = not session.output.out.is_terminal
    session.output.show(found, lambda: knowledge_hits.hits(found, explain=explain, on_lines=on_lines))


async def context(  # noqa: PLR0913 (one parameter an option)
    session: Session,
    query: Query,
    *,
    budget: Budget = 4000,
    scope: Scope = None,
    kinds: Kinds = None,
    tags: AnyTags = None,
    all_tags: AllTags = None,
    sources: Sources = None,
    at: At = None,
    inherit: Inherit = True,
    use: WrittenFor = Use.TEST_GENERATION,
    tokenizer: Tokenizer = None,
    candidates: Candidates = 50,
    threshold: Threshold = None,
    scene: Scene = None,
    record: Record = True,
) -> None:
    """Write what fits a query as a context for a model, within a budget of tokens. Prints the text and nothing else."""
    from skillbus.cli.request_fields import request_of  # noqa: PLC0415 (slow)
    from skillbus.contracts.retriever.knowledge_search import BuildContext  # noqa: PLC0415 (slow)

    fields = filters(kinds, tags, all_tags, sources, scope, at, inherit=inherit)
    fields |= {"query": query, "budget_tokens": budget, "tokenizer": tokenizer, "candidates": candidates}
    fields |= {"use": use.value, "threshold": threshold, "scene": scene, "record_use": None if record else False}
    asked = request_of(BuildContext, fields, OPTIONS)
    built = await session.knowledge.context(asked.model_dump(mode="json", exclude_unset=True))
    if session.output.as_json:
        session.output.show(built, str)
        return
    if built.text:
        session.output.write(f"{plain(built.text) if session.output.out.is_terminal else built.text}\n")
    session.output.note(knowledge_hits.how_built(built))
