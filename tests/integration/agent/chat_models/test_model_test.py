"""Test calls of chat models at a scripted upstream."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from skillbus.agent.adapters.chat_models.models import HttpChatModels
from skillbus.agent.domain.chat.model_test import ChatModelTester
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.contracts.embedder.registry import ProviderKind

from ....scripted_upstream import Behaviour, ScriptedUpstream, fail, hang_after, play_in_order
from .conftest import KEY, make_chat_model


def make_tester(models: HttpChatModels, chosen: ChatModel) -> ChatModelTester:
    async def find(_: str | None) -> Sequence[ChatModel]:
        return (chosen,)

    @asynccontextmanager
    async def open_models() -> AsyncGenerator[HttpChatModels]:
        yield models

    return ChatModelTester(find, open_models)


@pytest.mark.parametrize("kind", [ProviderKind.OPENAI, ProviderKind.ANTHROPIC])
async def test_a_model_that_answers_works(
    upstream: ScriptedUpstream, models: HttpChatModels, kind: ProviderKind
) -> None:
    tested = await make_tester(models, make_chat_model(upstream.url, kind)).test_model("m")
    assert (tested.ok, tested.provider, tested.model, tested.error) == (True, "acme", "m", None)
    assert len(upstream.received) == 1


@pytest.mark.parametrize(
    ("failure", "within_s", "reason"),
    [(fail(401), 5, "401"), (fail(404), 5, "404"), (hang_after(), 0.05, "no answer within 0.05 s")],
)
async def test_a_wrong_key_an_unknown_model_and_silence_are_reported_without_the_key(
    upstream: ScriptedUpstream, models: HttpChatModels, failure: Behaviour, within_s: float, reason: str
) -> None:
    upstream.script = play_in_order(failure)
    tested = await make_tester(models, make_chat_model(upstream.url)).test_model("m", within_s)
    assert not tested.ok
    assert reason in (tested.error or "")
    assert KEY not in (tested.error or "")
