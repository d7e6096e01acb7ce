"""The retriever's handlers: decode, one call of the domain, encode."""

import time
from dataclasses import dataclass

from skillbus.contracts.endpoint import Check
from skillbus.contracts.retriever import SearchTools, ToolsFound
from skillbus.retriever.domain.search import ToolSearch
from skillbus.vectors import VectorSearch


@dataclass(frozen=True, slots=True)
class RetrieverHandlers:
    """Answers the retriever's requests."""

    search: ToolSearch
    store: VectorSearch

    async def search_tools(self, request: SearchTools) -> ToolsFound:
        """The tools that fit, best first."""
        start = time.perf_counter()
        found = await self.search.find(request)
        return ToolsFound(
            results=found.hits,
            degraded="lexical" if found.degraded else None,
            model=found.model,
            split=found.split,
            explanation=found.explanation,
            took_ms=round((time.perf_counter() - start) * 1000, 3),
        )

    async def store_reachable(self) -> Check:
        """Whether vectors can be searched."""
        health = await self.store.health()
        return Check(name="vector_store", ready=health.ready, detail="; ".join((health.engine, *health.notices)))
