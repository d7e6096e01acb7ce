"""Handlers of the agent's requests about chats."""

from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from skillbus.agent.domain.chat.engine import LAST_ANSWER_S
from skillbus.agent.domain.chat.model_test import ChatModelTester
from skillbus.agent.domain.chat.turns import TurnRegistry
from skillbus.common.bus import headers
from skillbus.common.bus.responder import Route, route
from skillbus.contracts.agent.chat import Chat, TurnEnded
from skillbus.contracts.agent.model_test import TEST_CHAT_MODEL, ChatModelTested, TestChatModel
from skillbus.contracts.agent.turns import CANCEL_TURN, CHAT, FOLLOW_TURN, TurnCancelled, TurnSelector

_TO_REPLY_S: Final = 2.0
"""Part of the caller's time that is kept for the reply."""
_LEAST_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ChatHandlers:
    """Answers the agent's requests about chats."""

    turns: TurnRegistry
    tester: ChatModelTester

    def list_routes(self) -> tuple[Route, ...]:
        """Return the routes of all requests."""
        return (
            route(CHAT, self.chat),
            route(FOLLOW_TURN, self.turns.follow_turn),
            route(CANCEL_TURN, self.cancel_turn),
            route(TEST_CHAT_MODEL, self.test_chat_model),
        )

    async def chat(self, request: Chat) -> TurnEnded:
        left_s = headers.remaining_s(CHAT.timeout_s)
        reserved_s = min(LAST_ANSWER_S + _TO_REPLY_S, left_s / 3)
        time_s = max(min(request.limits.time_s, left_s - reserved_s), _LEAST_S)
        limits = request.limits.model_copy(update={"time_s": time_s})
        chat = request.model_copy(update={"limits": limits})
        return await self.turns.run_turn(chat, request.turn_id or uuid4().hex)

    async def test_chat_model(self, request: TestChatModel) -> ChatModelTested:
        return await self.tester.test_model(request.model)

    async def cancel_turn(self, request: TurnSelector) -> TurnCancelled:
        ending = await self.turns.cancel_turn(request.turn_id, request.project)
        return TurnCancelled(turn_id=request.turn_id, ending=ending)
