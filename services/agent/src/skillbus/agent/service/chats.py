"""Handlers of the agent's requests about chats."""

from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from skillbus.agent.domain.chat.engine import LAST_ANSWER_S
from skillbus.agent.domain.chat.model_test import ChatModelTester
from skillbus.agent.domain.chat.turns import TurnRegistry
from skillbus.common.bus import headers
from skillbus.common.bus.responder import Route, route
from skillbus.contracts.agent.approvals import DECIDE_CALL, ApprovalMode
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
    approval_s: float
    """Longest time that a turn may wait for approvals."""

    def list_routes(self) -> tuple[Route, ...]:
        """Return the routes of all requests."""
        return (
            route(CHAT, self.chat),
            route(FOLLOW_TURN, self.turns.follow_turn),
            route(CANCEL_TURN, self.cancel_turn),
            route(TEST_CHAT_MODEL, self.test_chat_model),
            route(DECIDE_CALL, self.turns.decide_call),
        )

    async def chat(self, request: Chat) -> TurnEnded:
        limits = request.limits
        waits = request.approvals is ApprovalMode.WAIT
        wanted_s = min(limits.approval_s, self.approval_s) if waits else 0.0
        # A request without a deadline waits as long as its limits want.
        left_s = headers.caller_waits_s(CHAT.timeout_s + wanted_s)
        time_s, approval_s = split_time(left_s, limits.time_s, wanted_s)
        limits = limits.model_copy(update={"time_s": time_s, "approval_s": approval_s if waits else limits.approval_s})
        chat = request.model_copy(update={"limits": limits})
        caller = headers.origin.get()
        started_by = None if caller is None else caller.actor
        return await self.turns.run_turn(chat, request.turn_id or uuid4().hex, started_by)

    async def test_chat_model(self, request: TestChatModel) -> ChatModelTested:
        return await self.tester.test_model(request.id)

    async def cancel_turn(self, request: TurnSelector) -> TurnCancelled:
        ending = await self.turns.cancel_turn(request.turn_id, request.project)
        return TurnCancelled(turn_id=request.turn_id, ending=ending)


def split_time(left_s: float, time_s: float, approval_s: float) -> tuple[float, float]:
    """Return the time of a turn and the time that it may wait for approvals, so that both fit before the deadline.

    If they do not fit, the wait gets what the turn leaves, but at least half.
    """
    usable_s = left_s - min(LAST_ANSWER_S + _TO_REPLY_S, left_s / 3)
    wait_s = min(approval_s, max(usable_s - time_s, usable_s / 2))
    return max(min(time_s, usable_s - wait_s), _LEAST_S), max(wait_s, _LEAST_S)
