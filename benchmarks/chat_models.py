"""One streamed call of a chat model with ten tools: time and CPU of the caller, and when the first text is there.

Claims: the first text at most 5 ms after the upstream sent it; less CPU than half of pydantic-ai's model layer, whose
clients are measured in the same run, as is a bare httpx that only reads the lines. The upstream is scripted, without
latency, in a process of its own, and rounds alternate. Figures are medians of rounds; the first text is one of calls.

    python benchmarks/chat_models.py [--calls 200] [--rounds 5]
"""

import asyncio
import gc
import multiprocessing as mp
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
from measuring import BenchmarkParser, save_result, summarize

from skillbus.agent.adapters.chat_models.models import HttpChatModels
from skillbus.agent.domain.chat.model import ModelCall
from skillbus.common.outbound.addresses import AddressRule
from skillbus.common.outbound.secret_grants import SecretGrants
from skillbus.common.secrets import Secrets
from skillbus.contracts.agent.chat import ChatMessage, ChatRole, FunctionDefinition
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.contracts.embedder.registry import ModelKind, ModelRecord, ProviderKind, ProviderRecord
from skillbus.providers.client import ProviderClients

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the scripted upstream is the tests'

from tests.scripted_answers import Answer, Call
from tests.scripted_upstream import serve_upstream

KEY = "bench-key-0123456789"
WHEN = datetime(2026, 11, 23, tzinfo=UTC)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOLS = [(f"tool_{number}", "Does something useful with a number. " * 5) for number in range(10)]

OneCall = Callable[[], Awaitable[int | None]]
"""Makes one call. Returns when the upstream sent the text, in nanoseconds of `perf_counter_ns`, if there is one."""


def serve_here(pipe: Connection) -> None:
    """Answer with the time, and with a call of a tool."""

    async def serve() -> None:
        async with serve_upstream(
            lambda _: Answer(str(time.perf_counter_ns()), [Call("tool_1", {"a": 1})])
        ) as upstream:
            pipe.send(upstream.url)
            await asyncio.to_thread(pipe.recv)

    asyncio.run(serve())


def make_chat_model(url: str, kind: ProviderKind) -> ChatModel:
    times = {"version": 1, "created_at": WHEN, "updated_at": WHEN}
    record = {"name": kind.value, "kind": kind, "base_url": url, "api_key": "env:BENCH_KEY", **times}
    model = {"id": "0" * 32, "provider": kind.value, "name": "m", "kind": ModelKind.CHAT, "is_default": True, **times}
    return ChatModel(
        model=ModelRecord.model_validate({**model, "fingerprint": None}),
        provider=ProviderRecord.model_validate(record),
    )


def make_ours(stack: AsyncExitStack, clients: ProviderClients, url: str, kind: ProviderKind) -> OneCall:
    models, candidate = HttpChatModels(clients), make_chat_model(url, kind)
    messages = (ChatMessage(role=ChatRole.SYSTEM, content="sys"), ChatMessage(role=ChatRole.USER, content="hello"))
    tools = tuple(FunctionDefinition(name=name, description=text, parameters=SCHEMA) for name, text in TOOLS)
    call = ModelCall(messages, tools)

    async def ask() -> int | None:
        arrived: int | None = None
        async for piece in models.stream_answer([candidate], call):
            if isinstance(piece, str):
                arrived = time.perf_counter_ns() - int(piece)
        return arrived

    return ask


async def make_httpx(stack: AsyncExitStack, url: str) -> OneCall:
    client = await stack.enter_async_context(httpx.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}))
    functions = [{"name": name, "description": text, "parameters": SCHEMA} for name, text in TOOLS]
    body = {
        "model": "m",
        "messages": [{"role": "system", "content": "sys"}, {"role": "user", "content": "hello"}],
        "stream": True,
        "tools": [{"type": "function", "function": function} for function in functions],
    }

    async def ask() -> int | None:
        async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
            async for _ in response.aiter_lines():
                pass
        return None

    return ask


def make_pydantic_ai(url: str) -> OneCall:
    from pydantic_ai.direct import model_request_stream  # noqa: PLC0415 - a second and 50 MB
    from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart  # noqa: PLC0415
    from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415
    from pydantic_ai.tools import ToolDefinition  # noqa: PLC0415

    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key=KEY))
    tools = [ToolDefinition(name=name, description=text, parameters_json_schema=SCHEMA) for name, text in TOOLS]
    parameters = ModelRequestParameters(function_tools=tools, allow_text_output=True)
    messages = [ModelRequest(parts=[SystemPromptPart("sys"), UserPromptPart("hello")])]

    async def ask() -> int | None:
        async with model_request_stream(model, messages, model_request_parameters=parameters) as stream:
            async for _ in stream:
                pass
        return None

    return ask


async def measure(asks: dict[str, OneCall], calls: int, rounds: int) -> dict[str, object]:
    wall: dict[str, list[float]] = {name: [] for name in asks}
    cpu: dict[str, list[float]] = {name: [] for name in asks}
    first: dict[str, list[float]] = {name: [] for name in asks}
    for ask in asks.values():
        for _ in range(min(20, calls)):
            await ask()
    gc.collect()
    for _ in range(rounds):
        for name, ask in asks.items():
            started, used = time.perf_counter(), time.process_time()
            for _ in range(calls):
                arrived = await ask()
                if arrived is not None:
                    first[name].append(arrived / 1e6)
            wall[name].append((time.perf_counter() - started) / calls * 1e3)
            cpu[name].append((time.process_time() - used) / calls * 1e3)
    baseline = statistics.median(cpu["httpx alone"])
    return {
        name: {
            "call_ms": summarize(wall[name]),
            "cpu_ms": summarize(cpu[name]),
            "cpu_against_httpx": round(statistics.median(cpu[name]) / baseline, 2),
            **({"first_text_ms": summarize(first[name], 3)} if first[name] else {}),
        }
        for name in asks
    }


async def run(calls: int, rounds: int, url: str) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        secrets = Secrets(SecretGrants.parse("BENCH_KEY=http://127.0.0.1"), {"BENCH_KEY": KEY})
        clients = await stack.enter_async_context(ProviderClients(secrets, AddressRule.parse("127.0.0.1")))
        asks = {
            "httpx alone": await make_httpx(stack, f"{url}/v1"),
            "skillbus, openai": make_ours(stack, clients, f"{url}/v1", ProviderKind.OPENAI),
            "skillbus, anthropic": make_ours(stack, clients, url, ProviderKind.ANTHROPIC),
            "pydantic-ai, openai": make_pydantic_ai(f"{url}/v1"),
        }
        return await measure(asks, calls, rounds)


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.read_arguments()
    ours, theirs = mp.get_context("spawn").Pipe()
    server = mp.get_context("spawn").Process(target=serve_here, args=(theirs,))
    server.start()
    try:
        result = asyncio.run(run(arguments.calls, arguments.rounds, ours.recv()))
    finally:
        ours.send(None)
        server.join(5)
    save_result("chat_models", {"calls": arguments.calls, "rounds": arguments.rounds, "figures": result}, arguments.out)


if __name__ == "__main__":
    main()
