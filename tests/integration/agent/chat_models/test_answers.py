"""Answers of chat models over HTTP, in both wire formats."""

import asyncio
from typing import Any

import openai
import pytest

from skillbus.agent.adapters.chat_models.models import HttpChatModels
from skillbus.agent.domain.chat.model import ModelCall
from skillbus.common.testing import WAIT_S
from skillbus.contracts.agent.chat import ChatMessage, ChatRole, FinishReason, FunctionDefinition, TokenUsage
from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.providers.client import CHATS_AT_ONCE

from ....scripted_answers import Answer, Call
from ....scripted_upstream import Exchange, ScriptedUpstream
from .conftest import KEY, QUESTION, ask, make_chat_model

TOOL = FunctionDefinition(name="calculate", description="Calculate.", parameters={"type": "object"})


async def test_text_comes_in_pieces_then_the_whole_answer(upstream: ScriptedUpstream, models: HttpChatModels) -> None:
    upstream.script = lambda _: Answer(["3", "9", "1"], prompt_tokens=7, cached_tokens=4, reasoning_tokens=2)
    pieces = [piece async for piece in models.stream_answer([make_chat_model(f"{upstream.url}/v1")], QUESTION)]
    assert pieces[:-1] == ["3", "9", "1"]
    answer = await ask(models, make_chat_model(f"{upstream.url}/v1"))
    assert (answer.provider, answer.model, answer.message.content) == ("acme", "m", "391")
    assert answer.finish_reason is FinishReason.STOP
    assert answer.usage == TokenUsage(prompt_tokens=7, completion_tokens=5, cached_tokens=4, reasoning_tokens=2)
    assert upstream.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert upstream.connections == 1


async def test_calls_are_collected_and_go_back_with_their_results(
    upstream: ScriptedUpstream, models: HttpChatModels
) -> None:
    upstream.script = lambda received: (
        Answer(f"It is {received.results[0]}.")
        if received.results
        else Answer("Let me see.", [Call("calculate", {"expression": "17 * 23"})])
    )
    candidate = make_chat_model(f"{upstream.url}/v1")
    answer = await ask(models, candidate, call=ModelCall(QUESTION.messages, (TOOL,)))
    assert answer.finish_reason is FinishReason.TOOL_CALLS
    (call,) = answer.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("calculate", '{"expression": "17 * 23"}')
    result = ChatMessage(role=ChatRole.TOOL, content="391", tool_call_id=call.id)
    answer = await ask(models, candidate, call=ModelCall((*QUESTION.messages, answer.message, result), (TOOL,)))
    assert answer.message.content == "It is 391."


async def test_the_openai_client_reads_the_scripted_upstream(upstream: ScriptedUpstream) -> None:
    upstream.script = lambda _: Answer(["a", "b"], [Call("calculate", {"x": 1})])
    async with openai.AsyncOpenAI(base_url=f"{upstream.url}/v1", api_key="k", max_retries=0) as client:
        asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        whole = await client.chat.completions.create(**asked)
        async with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
            streamed = await stream.get_final_completion()
    for completion in (whole, streamed):
        message = completion.choices[0].message
        assert message.content == "ab"
        assert message.tool_calls
        assert message.tool_calls[0].function.arguments == '{"x": 1}'
        assert completion.usage
        assert completion.usage.total_tokens == 15


async def test_the_anthropic_client_reads_the_scripted_upstream(upstream: ScriptedUpstream) -> None:
    import anthropic  # noqa: PLC0415 (0.6 s for every worker of a test run, as each collects all tests)

    upstream.script = lambda _: Answer(["a", "b"], [Call("calculate", {"x": 1})], thinking="hm", cached_tokens=3)
    async with anthropic.AsyncAnthropic(base_url=upstream.url, api_key="k", max_retries=0) as client:
        asked: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
        whole = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
    both: tuple[Any, ...] = (whole, streamed)
    for message in both:
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        assert message.content[2].input == {"x": 1}
        assert message.stop_reason == "tool_use"
        assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (7, 3)


async def test_anthropic_gets_its_headers_and_its_thoughts_back(
    upstream: ScriptedUpstream, models: HttpChatModels
) -> None:
    upstream.script = lambda received: (
        Answer(f"It is {received.results[0]}.")
        if received.results
        else Answer(["Let ", "me see."], [Call("calculate", {"x": 1})], thinking="17 times 23", cached_tokens=4)
    )
    candidate = make_chat_model(upstream.url, ProviderKind.ANTHROPIC)
    answer = await ask(models, candidate, call=ModelCall(QUESTION.messages, (TOOL,)))
    assert (answer.message.content, answer.finish_reason) == ("Let me see.", FinishReason.TOOL_CALLS)
    assert answer.usage == TokenUsage(prompt_tokens=10, completion_tokens=5, cached_tokens=4)
    result = ChatMessage(role=ChatRole.TOOL, content="391", tool_call_id=answer.message.tool_calls[0].id)
    answer = await ask(models, candidate, call=ModelCall((*QUESTION.messages, answer.message, result), (TOOL,)))
    assert answer.message.content == "It is 391."
    first, second = upstream.received
    assert (first.path, first.headers["x-api-key"], first.headers["anthropic-version"]) == (
        "/v1/messages",
        KEY,
        "2023-06-01",
    )
    assert "authorization" not in first.headers
    assert second.body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "17 times 23", "signature": "signed 17 times 23"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "call_1", "name": "calculate", "input": {"x": 1}},
    ]


@pytest.mark.parametrize("kind", [ProviderKind.OLLAMA, ProviderKind.OPENAI])
async def test_the_path_depends_on_the_kind(
    upstream: ScriptedUpstream, models: HttpChatModels, kind: ProviderKind
) -> None:
    await ask(models, make_chat_model(f"{upstream.url}/v1", kind))
    await ask(models, make_chat_model(upstream.url, kind, version=2))
    second = "/v1/chat/completions" if kind is ProviderKind.OLLAMA else "/chat/completions"
    assert [received.path for received in upstream.received] == ["/v1/chat/completions", second]


async def test_calls_at_once_are_all_answered_within_the_limit_of_the_provider(
    upstream: ScriptedUpstream, models: HttpChatModels
) -> None:
    upstream.script = lambda received: Answer(received.body["messages"][0]["content"])
    candidate = make_chat_model(upstream.url, max_concurrency=4)
    calls = [ModelCall((ChatMessage(role=ChatRole.USER, content=str(number)),)) for number in range(24)]
    answers = await asyncio.gather(*(ask(models, candidate, call=call) for call in calls))
    assert [answer.message.content for answer in answers] == [str(number) for number in range(24)]
    assert upstream.most_at_once <= 4
    assert upstream.connections <= 4


async def test_a_provider_without_a_limit_takes_32_chats_at_once(
    upstream: ScriptedUpstream, models: HttpChatModels
) -> None:
    all_asked = asyncio.Event()

    async def wait_for_others(exchange: Exchange) -> None:
        if upstream.most_at_once == CHATS_AT_ONCE:
            all_asked.set()
        await all_asked.wait()
        await Answer("Hello")(exchange)

    upstream.script = lambda _: wait_for_others
    candidate = make_chat_model(upstream.url)
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*(ask(models, candidate) for _ in range(CHATS_AT_ONCE + 1)))
    assert upstream.most_at_once == CHATS_AT_ONCE
