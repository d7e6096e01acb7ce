"""The key goes to the provider, and is in no log, message or repr, and in no variable that a traceback could show."""

import io
import logging
import traceback
from collections.abc import Iterator

import pytest
import structlog

from skillbus.agent.adapters.chat_models.models import HttpChatModels
from skillbus.agent.domain.errors import AgentError
from skillbus.contracts.embedder.registry import ProviderKind

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
def everything_logged() -> Iterator[io.StringIO]:
    """What all libraries log at any level, and structlog with tracebacks and the variables in them."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    with_variables = structlog.tracebacks.ExceptionDictTransformer(show_locals=True, locals_max_string=100_000)
    before = structlog.get_config()
    structlog.configure(
        processors=[structlog.processors.ExceptionRenderer(with_variables), structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    yield out
    structlog.configure(**before)
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.parametrize("kind", [ProviderKind.OPENAI, ProviderKind.ANTHROPIC])
@pytest.mark.parametrize("case", FAILURES)
async def test_no_failure_shows_the_key(
    upstream: ScriptedUpstream, models: HttpChatModels, everything_logged: io.StringIO, kind: ProviderKind, case: str
) -> None:
    upstream.script = lambda _: FAILURES[case]
    with pytest.raises(AgentError) as raised:
        await ask(models, make_chat_model(upstream.url, kind))
    structlog.get_logger().error("failed", exc_info=raised.value)
    traces = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    assert PART in str(upstream.received[0].headers)
    assert PART not in f"{raised.value!r} {traces}"
    # httpcore logs the headers of replies, the provider's own words, at a level that is never on.
    logged = [line for line in everything_logged.getvalue().splitlines() if "receive_response_headers" not in line]
    assert PART not in "\n".join(logged)
    assert any("chat_model_called" in line for line in logged)
