"""Providers of chat models that fail: what is tried again, what the next model answers, and what the caller is told."""

import asyncio
import gzip
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import aclosing

import pytest
import structlog

from skillbus.agent.adapters.chat_models.models import HttpChatModels
from skillbus.agent.domain.chat.model import ModelCall
from skillbus.agent.domain.errors import ModelBusyError, ModelFailedError, ModelRefusedError
from skillbus.contracts.agent.chat import ChatOptions
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.contracts.embedder.registry import ProviderKind

from ....scripted_answers import Answer, Received, encode_event, list_chunks, list_message_events
from ....scripted_upstream import (
    Behaviour,
    Exchange,
    ScriptedUpstream,
    fail,
    hang_after,
    play_in_order,
    send_raw,
    serve_upstream,
)
from .conftest import KEY, PROMPT_S, QUESTION, Waits, ask, make_chat_model

HELLO = Answer(["Hel", "lo"])
KINDS = [ProviderKind.OPENAI, ProviderKind.ANTHROPIC]
TEXTS = {
    ProviderKind.OPENAI: list_chunks(HELLO)[:2],
    ProviderKind.ANTHROPIC: list_message_events(HELLO)[:4],
}
"""Events up to the first text."""
OVERLOADED = {
    ProviderKind.OPENAI: encode_event({"error": {"message": f"{KEY} overloaded", "code": 503}}),
    ProviderKind.ANTHROPIC: encode_event({"type": "error", "error": {"type": "overloaded_error"}}, "error"),
}
HUGE = b"data: " + b"x" * 1_000_000
BAD_STREAMS: dict[str, Callable[[ProviderKind], list[bytes]]] = {
    "invalid JSON": lambda _: [b"data: {\n\n"],
    "a huge event": lambda _: [HUGE] * 5,
    "an error": lambda kind: [OVERLOADED[kind]],
    "an end": lambda _: [],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failure", [fail(500), fail(529), send_raw(end=False), send_raw()])
async def test_a_failure_before_the_first_event_is_tried_again_and_then_answered_by_the_next_model(
    upstream: ScriptedUpstream, models: HttpChatModels, waits: Waits, kind: ProviderKind, failure: Behaviour
) -> None:
    chain = [make_chat_model(upstream.url, kind), make_chat_model(upstream.url, kind, name="second")]
    for failures, provider in ((2, "acme"), (3, "second")):
        upstream.script = play_in_order(*[failure] * failures, HELLO)
        assert (await ask(models, *chain)).provider == provider
    assert len(upstream.received) == 3 + 4
    assert len(waits.waited_s) == 2 + 2


async def test_a_provider_that_is_busy_is_asked_again_when_it_says(
    upstream: ScriptedUpstream, models: HttpChatModels, waits: Waits
) -> None:
    upstream.script = play_in_order(fail(429, retry_after="3"), HELLO)
    answer = await ask(models, make_chat_model(upstream.url))
    assert answer.message.content == "Hello"
    assert [int(waited) for waited in waits.waited_s] == [3]


async def test_the_caller_is_told_that_all_models_are_busy_and_until_when(
    upstream: ScriptedUpstream, models: HttpChatModels
) -> None:
    waits_s = {"/day": 86_400, "/hour": 3_600}

    def answer(received: Received) -> Behaviour:
        wait_s = waits_s.get(received.path.partition("/chat")[0])
        return fail(500) if wait_s is None else fail(429, retry_after=str(wait_s))

    upstream.script = answer

    def make(path: str) -> ChatModel:
        return make_chat_model(f"{upstream.url}{path}", name=path.removeprefix("/"))

    with pytest.raises(ModelBusyError, match="answered 429") as busy:
        await ask(models, make("/day"), make("/hour"))
    assert 3_590 < (busy.value.retry_after_s or 0) <= 3_600
    with pytest.raises(ModelFailedError) as failed:
        await ask(models, make("/day"), make("/down"))
    assert not isinstance(failed.value, ModelBusyError)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", BAD_STREAMS)
async def test_a_bad_stream_without_text_leads_to_the_next_model(
    upstream: ScriptedUpstream, models: HttpChatModels, kind: ProviderKind, bad: str
) -> None:
    begun = TEXTS[kind][:1]
    upstream.script = lambda received: (
        send_raw(*begun, *BAD_STREAMS[bad](kind)) if received.path.startswith("/bad") else HELLO
    )
    chain = [make_chat_model(f"{upstream.url}/bad", kind, name="bad"), make_chat_model(upstream.url, kind)]
    assert (await ask(models, *chain)).provider == "acme"
    assert len(upstream.received) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [*BAD_STREAMS, "a cut"])
async def test_a_bad_stream_after_text_ends_the_answer(
    upstream: ScriptedUpstream, models: HttpChatModels, kind: ProviderKind, bad: str
) -> None:
    upstream.script = lambda _: (
        send_raw(*TEXTS[kind], end=False) if bad == "a cut" else send_raw(*TEXTS[kind], *BAD_STREAMS[bad](kind))
    )
    chain = [make_chat_model(upstream.url, kind), make_chat_model(upstream.url, kind, name="second")]
    answer = models.stream_answer(chain, QUESTION)
    assert await anext(answer) == "Hel"
    with pytest.raises(ModelFailedError, match="acme"):
        await anext(answer)
    assert len(upstream.received) == 1


@pytest.mark.parametrize("begun", [[], [b": PROCESSING\n\n"], [b"data: {"]])
async def test_a_provider_that_hangs_is_left_in_time(
    upstream: ScriptedUpstream, models: HttpChatModels, begun: list[bytes]
) -> None:
    upstream.script = lambda received: hang_after(*begun) if received.path.startswith("/hang") else HELLO
    chain = [make_chat_model(f"{upstream.url}/hang", name="slow", timeout_s=PROMPT_S), make_chat_model(upstream.url)]
    assert (await ask(models, *chain)).provider == "acme"


async def test_a_stream_that_stops_is_left_in_time(upstream: ScriptedUpstream, models: HttpChatModels) -> None:
    upstream.script = lambda _: hang_after(*TEXTS[ProviderKind.OPENAI], b"data: {")
    with pytest.raises(ModelFailedError, match="nothing more for"):
        await ask(models, make_chat_model(upstream.url, timeout_s=PROMPT_S))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_refusal_says_what_is_wrong_and_is_not_asked_of_the_next_model(
    upstream: ScriptedUpstream, models: HttpChatModels, kind: ProviderKind, status: int
) -> None:
    upstream.script = lambda _: fail(status, f"messages: too long for {KEY}\n" + "x" * 1000)
    chain = [make_chat_model(upstream.url, kind), make_chat_model(upstream.url, kind, name="second")]
    with pytest.raises(ModelRefusedError, match="messages: too long for") as raised:
        await ask(models, *chain)
    assert len(upstream.received) == 1
    assert len(str(raised.value)) < 700
    assert KEY not in str(raised.value)


async def test_what_the_format_cannot_say_is_refused_without_a_request(
    upstream: ScriptedUpstream, models: HttpChatModels
) -> None:
    call = ModelCall(QUESTION.messages, options=ChatOptions(response_format={"type": "json_object"}))
    with pytest.raises(ModelRefusedError, match="json_schema"):
        await ask(models, make_chat_model(upstream.url, ProviderKind.ANTHROPIC), call=call)
    assert upstream.received == []


@pytest.mark.parametrize("status", [401, 403, 404, 302])
async def test_a_wrong_registration_leads_to_the_next_model(
    upstream: ScriptedUpstream, models: HttpChatModels, status: int
) -> None:
    upstream.script = play_in_order(fail(status, KEY, location="http://127.0.0.1:9/"), HELLO)
    chain = [make_chat_model(upstream.url), make_chat_model(upstream.url, name="second")]
    assert (await ask(models, *chain)).provider == "second"
    assert len(upstream.received) == 2


async def test_all_failures_are_told_without_the_key(
    upstream: ScriptedUpstream, models: HttpChatModels, logged: list[MutableMapping[str, object]]
) -> None:
    upstream.script = lambda _: send_raw(OVERLOADED[ProviderKind.OPENAI], x_echo=KEY)
    chain = [
        make_chat_model(upstream.url),
        make_chat_model(upstream.url, name="other", api_key="env:NOT_LISTED"),
        make_chat_model(None, ProviderKind.LOCAL, name="local"),
        make_chat_model("http://127.0.0.1:99999", name="typo"),
        make_chat_model("http://10.0.0.1", name="private", api_key=None),
    ]
    with pytest.raises(ModelFailedError) as raised:
        await ask(models, *chain)
    for name in ("acme", "NOT_LISTED", "local", "typo", "private"):
        assert name in str(raised.value)
    assert KEY not in f"{raised.value!r} {logged}"
    assert [line["outcome"] for line in logged if line["event"] == "chat_model_called"] == ["failed"] * 5
    with pytest.raises(ModelFailedError):
        await ask(models)


async def test_a_provider_that_keeps_failing_is_left_alone_for_a_while(
    upstream: ScriptedUpstream, models: HttpChatModels, waits: Waits
) -> None:
    upstream.script = lambda _: send_raw(*TEXTS[ProviderKind.OPENAI], end=False)
    for _ in range(3):
        with pytest.raises(ModelFailedError):
            await ask(models, make_chat_model(upstream.url))
    with pytest.raises(ModelFailedError, match="3 times in a row"):
        await ask(models, make_chat_model(upstream.url))
    assert len(upstream.received) == 3
    waits.now += 31
    upstream.script = lambda _: HELLO
    assert (await ask(models, make_chat_model(upstream.url))).message.content == "Hello"


async def test_a_provider_that_begins_to_answer_again_is_open_to_all_at_once(
    upstream: ScriptedUpstream, models: HttpChatModels, waits: Waits
) -> None:
    upstream.script = lambda _: fail(500)
    model = make_chat_model(upstream.url)
    for _ in range(3):
        with pytest.raises(ModelFailedError):
            await ask(models, model)
    waits.now += 31
    upstream.script = play_in_order(hang_after(*TEXTS[ProviderKind.OPENAI]), HELLO)
    async with aclosing(models.stream_answer([model], QUESTION)) as slow:
        assert await anext(slow) == "Hel"
        assert (await ask(models, model)).message.content == "Hello"


async def test_closing_the_answer_ends_the_request_at_once(upstream: ScriptedUpstream, models: HttpChatModels) -> None:
    gone = asyncio.Event()

    async def stream_forever(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.send(b"".join(TEXTS[ProviderKind.OPENAI]))
        await exchange.closed.wait()
        gone.set()

    upstream.script = lambda _: stream_forever
    model = make_chat_model(upstream.url, max_concurrency=1)
    async with aclosing(models.stream_answer([model], QUESTION)) as pieces:
        assert await anext(pieces) == "Hel"
    await asyncio.wait_for(gone.wait(), 5)
    upstream.script = lambda _: HELLO  # its permit is free again, and the breaker has nothing against it
    assert (await ask(models, model)).message.content == "Hello"


async def test_a_cancelled_caller_ends_the_request_before_the_first_event(
    upstream: ScriptedUpstream, models: HttpChatModels
) -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        arrived.set()
        await exchange.closed.wait()
        gone.set()

    upstream.script = lambda _: wait
    task = asyncio.create_task(ask(models, make_chat_model(upstream.url)))
    await asyncio.wait_for(arrived.wait(), 5)
    task.cancel()
    await asyncio.wait_for(gone.wait(), 5)
    await asyncio.wait({task})
    assert task.cancelled()


async def test_characters_and_lines_may_be_cut_anywhere(upstream: ScriptedUpstream, models: HttpChatModels) -> None:
    content = b"".join(list_chunks(Answer(["你好", "👋 ", "ok"]))).replace(b"\n", b"\r\n")
    upstream.script = lambda _: send_raw(*(content[at : at + 1] for at in range(len(content))))
    assert (await ask(models, make_chat_model(upstream.url))).message.content == "你好👋 ok"


async def test_a_compressed_stream_is_read_within_the_same_bounds(
    upstream: ScriptedUpstream, models: HttpChatModels
) -> None:
    bomb = gzip.compress(b": " + b"x" * 8_000_000)
    packed = gzip.compress(b"".join(list_chunks(HELLO)))
    upstream.script = play_in_order(
        send_raw(packed[:40], packed[40:], content_encoding="gzip"), send_raw(bomb, content_encoding="gzip")
    )
    assert (await ask(models, make_chat_model(upstream.url))).message.content == "Hello"
    with pytest.raises(ModelFailedError, match="more than the 4096 KiB"):
        await ask(models, make_chat_model(upstream.url))


@pytest.mark.parametrize(
    ("header", "problem"),
    [({"content_type": "application/json"}, "text/event-stream"), ({"content_encoding": "br"}, "decompressed")],
)
async def test_a_reply_of_another_type_is_a_failure(
    upstream: ScriptedUpstream, models: HttpChatModels, header: dict[str, str], problem: str
) -> None:
    upstream.script = lambda _: send_raw(b"{}", end=True, **header)
    with pytest.raises(ModelFailedError, match=problem):
        await ask(models, make_chat_model(upstream.url))


async def test_a_changed_provider_gets_a_new_client_and_the_old_one_is_closed(
    upstream: ScriptedUpstream, models: HttpChatModels
) -> None:
    async with serve_upstream(lambda _: HELLO) as moved:
        await asyncio.gather(*(ask(models, make_chat_model(upstream.url)) for _ in range(3)))
        await ask(models, make_chat_model(moved.url, version=2))
        assert len(moved.received) == 1
        assert len(models._clients._clients) == 1
        assert set(models._clients._users.values()) == {1}


@pytest.fixture
def logged() -> Iterator[list[MutableMapping[str, object]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines
