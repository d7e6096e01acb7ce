"""A retriever that knows which items are near, whatever the texts say, and an agent whose model has one answer."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import route
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.agent.chat import Chat, ChatMessage, ChatRole, FinishReason, TokenUsage, TurnEnded
from skillbus.contracts.agent.turns import CHAT
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


@asynccontextmanager
async def open_fake_model(bus: Bus, answer: str) -> AsyncGenerator[list[Chat]]:
    """An agent whose model always gives one answer; yields what it was asked."""
    asked = list[Chat]()

    async def chat(request: Chat) -> TurnEnded:
        asked.append(request)
        return TurnEnded(
            turn_id="0" * 32,
            provider="lab",
            model="small",
            message=ChatMessage(role=ChatRole.ASSISTANT, content=answer),
            finish_reason=FinishReason.STOP,
            usage=TokenUsage(prompt_tokens=300, completion_tokens=100),
        )

    async with serve_routes(bus, "agent", [route(CHAT, chat)], ServiceHealth("agent", ()), lambda _: None):
        yield asked
