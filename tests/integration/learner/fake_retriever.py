"""A retriever that knows which items are near, whatever the texts say."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import route
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.retriever.nearest_knowledge import (
    FIND_NEAREST_KNOWLEDGE,
    FindNearestKnowledge,
    KnowledgeNeighbour,
    NearestKnowledgeFound,
)


@asynccontextmanager
async def open_fake_retriever(bus: Bus, near: Sequence[str] = ()) -> AsyncGenerator[None]:
    async def find_nearest(request: FindNearestKnowledge) -> NearestKnowledgeFound:
        found = tuple(KnowledgeNeighbour(id=item) for item in near)
        return NearestKnowledgeFound(neighbours=(found,) * len(request.texts))

    routes = [route(FIND_NEAREST_KNOWLEDGE, find_nearest)]
    async with serve_routes(bus, "retriever", routes, ServiceHealth("retriever", ()), lambda _: None):
        yield
