"""A tool as the index holds it, and as a hit tells it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from skillbus.contracts.retriever import Reason, ToolHit
from skillbus.retriever.domain.ranking import Ranked
from skillbus.retriever.domain.tool_type import tool_type_of


@dataclass(frozen=True, slots=True)
class StoredTool:
    """A tool of the index."""

    id: str
    name: str
    description: str
    tool_type: str | None = None
    """None where the index does not say."""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    term_indices: frozenset[int] = frozenset()
    """Indices of the terms of its text."""


def hit_of(ranked: Ranked, tool: StoredTool, query_terms: Mapping[int, str]) -> ToolHit | None:
    """The hit; None, with a warning in the log, for a tool of a kind that does not exist.

    Args:
        ranked: Its place and why.
        tool: What it is.
        query_terms: Terms of the query by their indices.
    """
    tool_type = tool_type_of(tool.id, tool.tool_type)
    if tool_type is None:
        return None
    terms = tuple(term for index, term in query_terms.items() if index in tool.term_indices)
    return ToolHit(
        id=tool.id,
        name=tool.name,
        description=tool.description,
        score=ranked.score,
        cosine=ranked.cosine,
        tool_type=tool_type,
        tags=tool.tags,
        metadata={**tool.metadata, "type": tool_type.value},
        reasons=tuple(_reasons(ranked, terms)),
    )


def _reasons(ranked: Ranked, terms: tuple[str, ...]) -> Iterator[Reason]:
    if ranked.cosine is not None and ranked.dense_rank is not None:
        yield Reason(side="dense", rank=ranked.dense_rank, score=ranked.cosine)
    if ranked.bm25 is not None and ranked.lexical_rank is not None:
        yield Reason(side="lexical", rank=ranked.lexical_rank, score=ranked.bm25, terms=terms)
