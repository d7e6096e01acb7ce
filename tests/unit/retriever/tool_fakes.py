"""An index of tools and an embedder that are written here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skillbus.relevance.score import NEUTRAL
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex
from skillbus.retriever.domain.tools.hit import IndexedTool
from skillbus.retriever.domain.tools.search import WantedTools

LIVE = LiveIndex("tools-abc-v1", "abc", 100)


@dataclass
class FakeIndex:
    """Tools by point, each with a cosine that falls with its place."""

    stored: Mapping[str, IndexedTool] = field(default_factory=dict)
    index: LiveIndex | None = LIVE
    gone: frozenset[str] = frozenset()
    nearest: float = 0.9
    step: float = 0.01
    """How much less the next tool is like the query."""
    tools_of_project: int = 5_000
    revision: int | None = None
    wanted: list[WantedTools] = field(default_factory=list)
    queries: list[EmbeddedQuery] = field(default_factory=list)

    def get_revision(self, live: LiveIndex) -> int | None:
        return self.revision

    async def find_live_index(self) -> LiveIndex | None:
        return self.index

    async def count_project(self, live: LiveIndex, project: str) -> int:
        return self.tools_of_project

    async def count_matching(self, live: LiveIndex, wanted: WantedTools) -> int:
        return len(self.stored)

    async def find_candidates(
        self, live: LiveIndex, query: EmbeddedQuery, wanted: WantedTools
    ) -> Sequence[IndexCandidate]:
        self.wanted.append(wanted)
        self.queries.append(query)
        return [
            IndexCandidate(
                point, None if query.dense is None else self.nearest - place * self.step, 9.0 - place * self.step * 100
            )
            for place, (point, tool) in enumerate(self.stored.items())
            if not wanted.tool_types or (tool.tool_type or "skill") in wanted.tool_types
        ]

    async def load_tools(self, live: LiveIndex, points: Sequence[str], *, functions: bool) -> Mapping[str, IndexedTool]:
        found = {point: self.stored[point] for point in points if point not in self.gone}
        return found if functions else {point: tool._replace(functions=None) for point, tool in found.items()}


@dataclass
class FakeEmbedder:
    dense: tuple[float, ...] | None = (1.0, 0.0)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    async def embed_query(self, query: str, parts: tuple[str, ...], fingerprint: str) -> EmbeddedQuery:
        self.asked.append((query, fingerprint))
        self.parts = parts
        model = "use-multilingual-v3" if self.dense else None
        vectors = tuple(self.dense for _ in parts) if self.dense else ()
        return EmbeddedQuery(self.dense, (1, 2), (1.0, 1.0), ("提交", "代码"), model, NEUTRAL, vectors)


def tools(*kinds: str | None) -> dict[str, IndexedTool]:
    return {f"p{at}": IndexedTool(f"skill:t{at}", f"t{at}", "", kind) for at, kind in enumerate(kinds)}
