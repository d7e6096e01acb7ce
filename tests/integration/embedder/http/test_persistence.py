"""How often a provider is asked: again after what passes, not at all for a while after failing too often."""

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ProviderKind, ProviderRecord
from skillbus.embedder.adapters.http.model import HttpModel
from skillbus.embedder.domain.errors import ModelUnavailableError, TextsRefusedError
from skillbus.embedder.domain.model import AsyncModel
from skillbus.providers.client import ProviderClients

from .conftest import OpenModel, Waits, a_model, registered
from .fake_provider import DIM, WAIT_S, FakeProvider, Reply, break_off, openai_error, trickle

DOWN = Reply(503)
BUSY = openai_error(429, "Rate limit reached", code="rate_limit_exceeded")


async def ask(model: AsyncModel) -> None:
    assert (await model.embed(["a"], TextRole.DOCUMENT)).rows.shape == (1, DIM)


async def fail(model: AsyncModel, reason: str | None = None) -> None:
    with pytest.raises(ModelUnavailableError, match=reason):
        await model.embed(["a"], TextRole.DOCUMENT)


@pytest.mark.parametrize("passing", [BUSY, DOWN, Reply(500), Reply(502), Reply(504), Reply(529), Reply(408), break_off])
async def test_what_may_pass_is_tried_again_after_a_wait(
    provider: FakeProvider, opened: OpenModel, waits: Waits, passing: Reply
) -> None:
    provider.script = [passing, passing]
    await ask(await opened())
    assert len(provider.seen) == 3
    assert 0 <= waits.waited_s[0] <= 0.25
    assert 0 <= waits.waited_s[1] <= 0.5


async def test_callers_that_were_refused_together_do_not_return_together(
    provider: FakeProvider, opened: OpenModel, waits: Waits
) -> None:
    provider.script = [DOWN] * 4
    model = await opened()
    await asyncio.gather(*(model.embed([text], TextRole.DOCUMENT) for text in "abcd"))
    assert len(set(waits.waited_s)) == len(waits.waited_s) == 4


async def test_three_tries_are_all(provider: FakeProvider, opened: OpenModel) -> None:
    provider.always = DOWN
    await fail(await opened(), "answered 503")
    assert len(provider.seen) == 3


async def test_a_quota_that_is_used_up_is_not_asked_for_again(provider: FakeProvider, opened: OpenModel) -> None:
    provider.always = openai_error(429, "You exceeded your current quota", code="insufficient_quota")
    await fail(await opened(), "insufficient_quota")
    assert len(provider.seen) == 1


async def test_what_a_busy_provider_asks_for_is_waited(provider: FakeProvider, opened: OpenModel, waits: Waits) -> None:
    provider.script = [openai_error(429, "slow down", retry_after="2")]
    await ask(await opened())
    assert 2.0 <= waits.waited_s[0] <= 2.25


async def test_it_may_name_a_time(provider: FakeProvider, opened: OpenModel, waits: Waits) -> None:
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=3), usegmt=True)
    provider.script = [openai_error(503, "maintenance", retry_after=until)]
    await ask(await opened())
    assert 1.0 <= waits.waited_s[0] <= 3.25


@pytest.mark.parametrize("seconds", ["5", "3600", "9" * 400])
async def test_a_wait_past_the_timeout_is_given_up_at_once(
    provider: FakeProvider, opened: OpenModel, waits: Waits, seconds: str
) -> None:
    provider.script = [openai_error(429, "slow down", retry_after=seconds)]
    await fail(await opened(timeout_s=5.0), "answered 429")
    assert waits.waited_s == []
    assert len(provider.seen) == 1


async def test_a_provider_that_nobody_is_behind_is_tried_again_and_named(
    providers: ProviderClients, waits: Waits
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    model = HttpModel(registered(f"http://127.0.0.1:{port}"), a_model(), providers)
    await model.open()
    await fail(model, f"cannot be reached at 127.0.0.1:{port}")
    assert len(waits.waited_s) == 2


async def test_one_that_hangs_up_without_a_word_is_tried_again(providers: ProviderClients, waits: Waits) -> None:
    calls = []

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(writer)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        model = HttpModel(registered(f"http://127.0.0.1:{port}"), a_model(), providers)
        await model.open()
        await fail(model, "broke off")
        await model.close()
    assert len(calls) == 3


async def test_what_speaks_another_protocol_is_told(providers: ProviderClients) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        model = HttpModel(registered(f"http://127.0.0.1:{port}"), a_model(), providers)
        await model.open()
        await fail(model, "broke off")
        await model.close()


@pytest.mark.parametrize("places", [1, 4])
async def test_failing_too_often_it_is_left_alone_and_then_asked_once(
    provider: FakeProvider, opened: OpenModel, waits: Waits, places: int
) -> None:
    provider.always = DOWN
    model = await opened(max_concurrency=places)
    for _ in range(3):
        await fail(model, "answered 503")
    asked = len(provider.seen)
    await fail(model, "failed 3 times in a row; next try in 30 s")
    assert len(provider.seen) == asked
    provider.always = None
    waits.now += 30
    provider.hold()
    probe = asyncio.create_task(ask(model))
    while len(provider.seen) == asked:
        await provider.arrival()
    await fail(model, "in a row")
    provider.release()
    await asyncio.wait_for(probe, WAIT_S)
    await ask(model)


async def test_all_models_of_a_provider_leave_it_alone_and_those_of_another_do_not(
    provider: FakeProvider, opened: OpenModel
) -> None:
    provider.script = [DOWN] * 9
    first, second = [await opened(model=a_model(name=name)) for name in ("m", "n")]
    for _ in range(3):
        await fail(first)
    await fail(second, "in a row")
    await ask(await opened(name="other"))


async def test_a_provider_that_is_registered_anew_is_asked_at_once(provider: FakeProvider, opened: OpenModel) -> None:
    provider.script = [DOWN] * 9
    model = await opened()
    for _ in range(3):
        await fail(model)
    await fail(model, "in a row")
    await ask(await opened(version=2))


async def test_timeouts_count(provider: FakeProvider, opened: OpenModel) -> None:
    provider.always = trickle
    model = await opened(timeout_s=0.1)
    for _ in range(3):
        await fail(model, "did not answer in full")
    assert len(provider.seen) == 3
    await fail(model, "in a row")


async def test_refused_texts_unknown_models_and_rejected_keys_do_not_count(
    provider: FakeProvider, opened: OpenModel
) -> None:
    model = await opened()
    provider.always = openai_error(400, "too long")
    for _ in range(4):
        with pytest.raises(TextsRefusedError):
            await model.embed(["a"], TextRole.DOCUMENT)
    for status in (401, 404):
        provider.always = openai_error(status, "no")
        for _ in range(4):
            await fail(model, str(status))
    provider.always = None
    await ask(model)


async def test_closing_all_providers_ends_what_is_asked(
    provider: FakeProvider, opened: OpenModel, providers: ProviderClients
) -> None:
    provider.hold()
    model = await opened()
    asking = asyncio.create_task(model.embed(["a"], TextRole.DOCUMENT))
    await provider.arrival()
    await providers.close()
    with pytest.raises(ModelUnavailableError):
        await asyncio.wait_for(asking, WAIT_S)
    await fail(model, "is closed")


async def test_a_caller_who_goes_away_frees_his_place(provider: FakeProvider, opened: OpenModel) -> None:
    provider.hold()
    model = await opened(max_concurrency=1)
    for _ in range(3):
        asking = asyncio.create_task(ask(model))
        await provider.arrival()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    provider.release()
    await asyncio.wait_for(ask(model), WAIT_S)


async def test_waiting_for_a_place_ends_with_the_timeout(provider: FakeProvider, opened: OpenModel) -> None:
    provider.hold()
    first = await opened(max_concurrency=1, timeout_s=0.3)
    asking = [asyncio.create_task(first.embed(["a"], TextRole.DOCUMENT)) for _ in range(3)]
    await provider.arrival()
    outcomes = await asyncio.wait_for(asyncio.gather(*asking, return_exceptions=True), WAIT_S)
    assert all(isinstance(outcome, ModelUnavailableError) for outcome in outcomes)
    assert any("no permit was free" in str(outcome) for outcome in outcomes)


def test_only_what_changes_the_vectors_changes_the_fingerprint(providers: ProviderClients) -> None:
    def fingerprint(provider: ProviderRecord | None = None, **fields: object) -> str:
        made = HttpModel(provider or registered("http://127.0.0.1:1"), a_model(**fields), providers)
        return made.spec.fingerprint

    same = fingerprint()
    assert fingerprint(registered("http://127.0.0.1:2", version=7, timeout_s=1.0, max_batch_texts=5)) == same
    assert fingerprint(priority=5, version=9) == same
    others = [
        fingerprint(registered("http://127.0.0.1:1", ProviderKind.DASHSCOPE)),
        fingerprint(registered("http://127.0.0.1:1", name="other")),
        fingerprint(name="n"),
        fingerprint(api_path="/embed"),
        fingerprint(request_dimensions=True),
        fingerprint(dimensions=16),
        fingerprint(query_prefix="a"),
        fingerprint(document_prefix="a"),
        fingerprint(query_prefix='a", document "b'),
        fingerprint(query_prefix="a", document_prefix="b"),
    ]
    assert len({same, *others}) == len(others) + 1
