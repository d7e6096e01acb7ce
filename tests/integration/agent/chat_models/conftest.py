"""Chat models at a scripted upstream, with waits that are noted and not waited."""

from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skillbus.agent.adapters.chat_models.models import HttpChatModels
from skillbus.agent.domain.chat.model import ModelAnswer, ModelCall
from skillbus.common.outbound.addresses import AddressRule
from skillbus.common.outbound.secret_grants import SecretGrants
from skillbus.common.secrets import Secrets
from skillbus.contracts.agent.chat import ChatMessage, ChatRole
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.contracts.embedder.registry import ModelKind, ModelRecord, ProviderKind, ProviderRecord
from skillbus.providers.client import ClientTuning, ProviderClients

from ....scripted_answers import Answer
from ....scripted_upstream import Script, ScriptedUpstream, serve_upstream

KEY = "sk-canary-9f8e7d6c5b4a"
WHEN = datetime(2026, 11, 23, tzinfo=UTC)
QUESTION = ModelCall((ChatMessage(role=ChatRole.USER, content="What is 17 * 23?"),))
PROMPT_S = 0.3
"""Timeout of providers that hang."""


class Waits:
    """Waits that take no time; and a clock for the breaker."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.waited_s.append(seconds)

    def clock(self) -> float:
        return self.now


def make_chat_model(
    url: str | None, kind: ProviderKind = ProviderKind.OPENAI, name: str = "acme", **fields: object
) -> ChatModel:
    """Make a chat model `m` of a provider. `fields` are those of the provider."""
    provider: dict[str, object] = {"name": name, "version": 1, "api_key": "env:ACME_KEY", "timeout_s": 5.0}
    provider |= {"kind": kind, "base_url": url, "created_at": WHEN, "updated_at": WHEN} | fields
    model: dict[str, object] = {"id": "0" * 32, "provider": name, "name": "m", "kind": ModelKind.CHAT, "version": 1}
    model |= {"is_default": True, "fingerprint": None, "created_at": WHEN, "updated_at": WHEN}
    return ChatModel(model=ModelRecord.model_validate(model), provider=ProviderRecord.model_validate(provider))


async def ask(models: HttpChatModels, *chain: ChatModel, call: ModelCall = QUESTION) -> ModelAnswer:
    """Return the whole answer, after checking that its text is what was streamed."""
    pieces = [piece async for piece in models.stream_answer(chain, call)]
    answer = pieces.pop()
    assert isinstance(answer, ModelAnswer)
    assert "".join(map(str, pieces)) == (answer.message.content or "")
    return answer


@pytest.fixture
async def upstream() -> AsyncGenerator[ScriptedUpstream]:
    """An upstream that answers "Hello" until it gets another script."""
    script: Script = lambda _: Answer(["Hel", "lo"])  # noqa: E731
    async with serve_upstream(script) as served:
        yield served


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
async def clients(waits: Waits, tmp_path: Path) -> AsyncGenerator[ProviderClients]:
    tuning = ClientTuning(breaker_failures=3, clock=waits.clock, sleep=waits.sleep, stream_silence_s=PROMPT_S)
    secrets = Secrets(SecretGrants.parse("ACME_KEY=http://127.0.0.1"), {"ACME_KEY": KEY}, tmp_path)
    async with ProviderClients(secrets, AddressRule.parse("127.0.0.1"), tuning) as opened:
        yield opened


@pytest.fixture
def models(clients: ProviderClients) -> HttpChatModels:
    return HttpChatModels(clients)


MakeModel = Callable[..., ChatModel]
