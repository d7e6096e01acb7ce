"""`skillbus search`."""

from enum import StrEnum
from typing import Annotated

import typer

from skillbus.cli import tables
from skillbus.cli.session import Session


class Kind(StrEnum):
    """As `skillbus.contracts.tools.ToolType`, which is slow to import; a test compares the two."""

    MCP = "mcp"
    BUILTIN = "builtin"
    SKILL = "skill"
    EXTERNAL = "external"


Query = Annotated[str, typer.Argument(help="What is wanted, in any language.")]
Limit = Annotated[int, typer.Option(min=1, max=100, help="How many tools at most.")]
Threshold = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Leave out tools that score less; the server's own if absent, 0 for the nearest."),
]
Types = Annotated[list[Kind] | None, typer.Option("--type", help="Only this; repeatable.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only tools that have one of these tags; repeatable.")]
Sources = Annotated[list[str] | None, typer.Option("--source", help="Only tools that this one described; repeatable.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show why each tool was found, and what the search did.")]


async def search(
    session: Session,
    query: Query,
    limit: Limit = 5,
    threshold: Threshold = None,
    types: Types = None,
    tags: Tags = None,
    sources: Sources = None,
    explain: Explain = False,
) -> None:
    """Find the tools that fit a request."""
    only = {"tool_types": types or (), "tags": tags or (), "sources": sources or ()}
    found = await session.client.search(query, limit=limit, threshold=threshold, only=only, explain=explain)
    between = "\n" if session.output.out.is_terminal else "; "  # without a terminal, a hit is a line
    session.output.show(found, lambda: tables.hits(found, explain=explain, between_reasons=between))
