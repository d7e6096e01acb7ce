"""The key goes to the provider, and is in no log, message or repr, and in no variable that a traceback could show."""

import traceback
from collections.abc import Iterator

import pytest
import structlog

from skillbus.agent.adapters.chat_models.models import HttpChatModels
from skillbus.agent.domain.errors import AgentError
from skillbus.contracts.embedder.registry import ProviderKind

from ....everything_logged import EverythingLogged, log_everything
from ....scripted_answers import build_chunk, encode_event
from ....scripted_upstream import Behaviour, ScriptedUpstream, fail, send_raw
from .conftest import KEY, ask, make_chat_model

PART = KEY[3:]  # also without what it begins with
ECHO = f"You sent {KEY}, and that is wrong"
FAILURES: dict[str, Behaviour] = {
    "in a server error": fail(500, ECHO, x_echo=KEY),
    "in a refusal": fail(400, ECHO),
    "as a rejected one": fail(401, ECHO),
    "in a redirect": fail(302, ECHO, location=f"http://evil.example/?key={KEY}"),
    "in an error event": send_raw(encode_event({"type": "error", "error": {"message": ECHO, "code": 400}})),
    "in a bad event": send_raw(encode_event(ECHO.encode())),
    "before a cut": send_raw(build_chunk({"odd": ECHO}), end=False),
}


@pytest.fixture
def everything_logged() -> Iterator[EverythingLogged]:
    with log_everything() as logged:
        yield logged


@pytest.mark.parametrize("kind", [ProviderKind.OPENAI, ProviderKind.ANTHROPIC])
@pytest.mark.parametrize("case", FAILURES)
async def test_no_failure_shows_the_key(
    upstream: ScriptedUpstream,
    models: HttpChatModels,
    everything_logged: EverythingLogged,
    kind: ProviderKind,
    case: str,
) -> None:
    upstream.script = lambda _: FAILURES[case]
    with pytest.raises(AgentError) as raised:
        await ask(models, make_chat_model(upstream.url, kind))
    structlog.get_logger().error("failed", exc_info=raised.value)
    traces = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    assert PART in str(upstream.received[0].headers)
    assert PART not in f"{raised.value!r} {traces}"
    assert PART not in everything_logged.text
    assert "chat_model_called" in everything_logged.text
