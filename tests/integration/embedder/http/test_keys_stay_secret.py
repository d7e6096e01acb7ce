"""The key is sent to the provider, and is in no log, message or repr, and no variable that a traceback could show."""

import traceback
from collections.abc import Iterator, MutableMapping

import httpx
import pytest
import structlog

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.http.model import HttpModel
from skillbus.embedder.domain.errors import EmbedderError
from skillbus.embedder.domain.model import AsyncModel
from skillbus.providers.client import ProviderClients

from ....everything_logged import EverythingLogged, log_everything
from .conftest import KEY, OpenModel, a_model, registered
from .fake_provider import Behaviour, FakeProvider, Reply, as_json, break_off, openai_error, trickle

PART = KEY[3:]  # also without what it begins with

ECHO = f"You sent Authorization: Bearer {KEY} and that is wrong"
FAILURES: dict[str, Behaviour] = {
    "down": Reply(503, ECHO.encode()),
    "an echo of the key in a server error": openai_error(500, ECHO),
    "an echo of the key in a refusal": openai_error(400, ECHO),
    "an echo of the key as a rejected one": openai_error(401, ECHO),
    "an echo of the key as the name of a model": openai_error(404, ECHO),
    "an echo of the key as a parameter": openai_error(400, "no", param=KEY),
    "an echo of the key instead of vectors": as_json({"data": ECHO}),
    "a redirect that holds it": Reply(302, b"", {"location": f"http://evil.example/?key={KEY}"}),
    "a redirect to a host of its name": Reply(302, b"", {"location": f"http://{KEY}/"}),
    "broken off": break_off,
    "slow": trickle,
}


@pytest.fixture
def everything_logged() -> Iterator[EverythingLogged]:
    with log_everything() as logged:
        yield logged


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


async def failure(model: AsyncModel) -> EmbedderError:
    with pytest.raises(EmbedderError) as caught:
        await model.embed(["a"], TextRole.DOCUMENT)
    return caught.value


@pytest.mark.parametrize("case", FAILURES)
async def test_no_failure_tells_the_key(
    provider: FakeProvider, opened: OpenModel, everything_logged: EverythingLogged, case: str
) -> None:
    provider.always = FAILURES[case]
    model = await opened(timeout_s=0.5)
    error = await failure(model)
    structlog.get_logger().error("failed", exc_info=error)
    told = everything_logged.text + "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    assert provider.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert "provider_call_failed" in told
    assert '"locals": {' in told
    assert PART not in told
    assert not any(isinstance(link, httpx.HTTPError) for link in chain(error)), "it holds the request"


async def test_no_key_is_told_when_nobody_answers(
    providers: ProviderClients, everything_logged: EverythingLogged
) -> None:
    model = HttpModel(registered("http://127.0.0.1:1"), a_model(), providers)
    await model.open()
    error = await failure(model)
    structlog.get_logger().error("failed", exc_info=error)
    assert PART not in everything_logged.text
    assert not any(isinstance(link, httpx.HTTPError) for link in chain(error))


async def test_a_key_that_no_header_can_hold_is_not_told(
    provider: FakeProvider, opened: OpenModel, environment: dict[str, str], everything_logged: EverythingLogged
) -> None:
    environment["ACME_KEY"] = f"{KEY}\nX-Injected: yes"
    error = await failure(await opened())
    structlog.get_logger().error("failed", exc_info=error)
    assert "env:ACME_KEY" in str(error)
    assert not provider.seen
    assert PART not in everything_logged.text + str(error)


async def test_a_request_that_is_answered_is_not_logged_with_its_key(
    provider: FakeProvider, opened: OpenModel, everything_logged: EverythingLogged
) -> None:
    model = await opened()
    await model.embed(["a"], TextRole.DOCUMENT)
    assert "HTTP Request: POST" in everything_logged.text
    assert PART not in everything_logged.text + repr(model) + repr(vars(model))


async def test_each_failed_try_is_one_line(
    provider: FakeProvider, opened: OpenModel, logged: list[MutableMapping[str, object]]
) -> None:
    provider.script = [Reply(503), openai_error(429, "slow down")]
    await (await opened()).embed(["a"], TextRole.DOCUMENT)
    tries = [line for line in logged if line["log_level"] == "warning"]
    assert [(line["event"], line["provider"], line["model"], line["status"]) for line in tries] == [
        ("provider_call_failed", "acme", "m", 503),
        ("provider_call_failed", "acme", "m", 429),
    ]
    assert all(isinstance(line["took_ms"], float) and line["took_ms"] >= 0 for line in tries)
