"""Test of a chat model: one short answer."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Final

from skillbus.agent.domain.chat.model import ChatModels, ModelCall
from skillbus.agent.domain.chat.ports import FindChatModels
from skillbus.agent.domain.errors import ModelFailedError, ModelRefusedError
from skillbus.contracts.agent.chat import ChatMessage, ChatRole
from skillbus.contracts.agent.model_test import ChatModelTested

TEST_S: Final = 55.0
"""Less than the 60 s that callers of `test_chat_model` wait. A local model may have to be loaded first."""
_QUESTION: Final = ModelCall((ChatMessage(role=ChatRole.USER, content="Reply with the word OK."),))


@dataclass(frozen=True, slots=True)
class ChatModelTester:
    """Tests chat models."""

    find_models: FindChatModels
    open_models: Callable[[], AbstractAsyncContextManager[ChatModels]]
    """Opens new connections: over those of turns, an open breaker would answer for a provider under test."""

    async def test_model(self, wanted: str, within_s: float = TEST_S) -> ChatModelTested:
        """Ask a model for an answer, and report the outcome. Raises RequestError if there is no such model."""
        (chosen, *_) = await self.find_models(wanted)
        started, error = time.perf_counter(), None
        try:
            async with (
                asyncio.timeout(within_s),
                self.open_models() as models,
                aclosing(models.stream_answer((chosen,), _QUESTION)) as pieces,
            ):
                async for _ in pieces:
                    pass
        except TimeoutError:
            error = f"it gave no answer within {within_s:g} s"
        except (ModelFailedError, ModelRefusedError) as failure:
            error = str(failure).removeprefix(f"model {chosen.model.name}: ")
        took_ms = round((time.perf_counter() - started) * 1e3, 3)
        return ChatModelTested(
            ok=error is None, provider=chosen.provider.name, model=chosen.model.name, took_ms=took_ms, error=error
        )
