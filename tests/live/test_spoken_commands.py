"""Spoken commands with models of DashScope: `qwen-flash` reads the sentence, `text-embedding-v4` finds the command.

Each test asks a whole system: registry, agent, index of commands and search. It also runs against a scripted provider
that speaks the same wire format, so that the path is always tried. With DashScope it is skipped without
DASHSCOPE_API_KEY, or if DashScope cannot be reached.
"""

import json
import os
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn
from zlib import crc32

import numpy as np
import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry
from pydantic import JsonValue, SecretStr

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.contracts.embedder.registry import (
    CREATE_MODEL,
    CREATE_PROVIDER,
    GET_PROVIDER,
    UPDATE_PROVIDER,
    CreateModel,
    CreateProvider,
    ModelKind,
    ProviderKind,
    ProviderSelector,
    UpdateProvider,
)
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.commands import PUT_COMMANDS, PutCommands
from skillbus.contracts.indexer.devices import PUT_DEVICES, PutDevices
from skillbus.contracts.retriever.command_resolution import (
    PARSE_QUERY,
    SEARCH_COMMANDS,
    ParseQuery,
    SearchCommands,
)
from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.standalone.nats_server import open_nats_server
from skillbus.vectors import open_vector_store

from ..conftest import NATS_URL
from ..scripted_answers import Answer, Received
from ..scripted_upstream import Behaviour, Exchange, serve_upstream
from .conftest import required

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY: Final = "DASHSCOPE_API_KEY"
LIBRARY: Final = Path(__file__).parents[2] / "examples" / "home" / "commands.jsonl"
TOP_N: Final = int(os.environ.get("SKILLBUS_TEST_TOP_N", "10"))
"""Commands among which the wanted one has to be."""
HOME: Final[tuple[JsonValue, ...]] = (
    {"home": "home", "id": "1", "name": "老伙计", "room": "客厅", "type": "fan"},
    {"home": "home", "id": "2", "name": "主灯", "room": "卧室", "type": "light"},
    {"home": "home", "id": "3", "name": "落地灯", "room": "客厅", "type": "light"},
)
Fields = dict[str, JsonValue]
SENTENCES: Final[dict[str, Fields]] = {
    "打开老伙计": {"action": "打开", "action_code": "turn_on", "name_hint": "老伙计"},
    "关闭所有卧室的灯": {
        "action": "关闭",
        "action_code": "turn_off",
        "type_hint": "light",
        "scope_include": ["卧室"],
        "quantifier": "all",
    },
    "打开除卧室以外的灯": {
        "action": "打开",
        "action_code": "turn_on",
        "type_hint": "light",
        "scope_exclude": ["卧室"],
        "quantifier": "except",
    },
    "打开那个": {"action": "打开", "action_code": "turn_on", "references": ["last-mentioned"]},
    "把客厅的灯调到三成亮": {
        "action": "设置亮度",
        "action_code": "set_brightness",
        "type_hint": "light",
        "scope_include": ["客厅"],
        "arguments": {"brightness": 30},
    },
}
"""Sentences, most of them of the specification, and what they mean."""
QUERIES: Final = {
    "把灯调亮一点": "switchLevel",
    "空调制冷温度调到二十四度": "thermostatCoolingSetpoint",
    "把窗帘打开": "windowShade",
    "开始清扫地面": "robotCleaner",
    "锁上门": "lock",
    "音量调高": "audioVolume",
}
"""Sentences, and the capability of the command that each means."""


def answer_provider(received: Received) -> Behaviour:
    """Answer like DashScope: chat completions, and embeddings."""
    is_chat = received.path.endswith("/chat/completions")
    return answer_chat(received) if is_chat else answer_embeddings(received)


def answer_chat(received: Received) -> Behaviour:
    """Answer like a model that knows the sentences."""
    data = json.loads(received.body["messages"][-1]["content"].splitlines()[1])
    assert data["rooms"], "the model is told the rooms of the home"
    empty: Fields = dict.fromkeys(("action_code", "name_hint", "type_hint", "quantifier"))
    empty |= {"scope_include": [], "scope_exclude": [], "references": [], "arguments": {}, "confidence": 0.95}
    return Answer(json.dumps({"queries": [empty | SENTENCES[data["sentence"]]]}, ensure_ascii=False))


def answer_embeddings(received: Received) -> Behaviour:
    """Answer with vectors in which texts with common characters are near each other."""

    def embed(text: str) -> list[float]:
        row = np.full(received.body["dimensions"], 0.01)
        for character, count in Counter(text).items():
            row[crc32(character.encode()) % len(row)] += count
        return [float(value) for value in row]

    async def behave(exchange: Exchange) -> None:
        texts = received.body["input"]
        data = [{"index": index, "embedding": embed(text)} for index, text in enumerate(texts)]
        await exchange.reply({"data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}})

    return behave


def skip_unreachable(problem: str) -> NoReturn:
    """Skip the test if a problem is that the provider cannot be reached; else fail it."""
    if "cannot be reached" in problem:
        pytest.skip(problem)
    pytest.fail(problem)


@dataclass(frozen=True, slots=True)
class Assistant:
    """The system with a home, the library, and models of one provider."""

    bus: Bus

    async def parse(self, sentence: str) -> QueryIR:
        """Return the one command that the model reads."""
        request = ParseQuery(text=sentence, home="home", parser="model")
        parsed = await self.bus.caller.call(PARSE_QUERY, request)
        if parsed.model_problem is not None:
            skip_unreachable(parsed.model_problem)
        assert (parsed.parsed_by, parsed.model) == ("model", "models/qwen-flash")
        (query,) = parsed.queries
        return query

    async def find_capabilities(self, query: str) -> list[str]:
        """Return the capabilities of the first `TOP_N` commands, best first, found by vectors."""
        found = await self.bus.caller.call(SEARCH_COMMANDS, SearchCommands(query=query, limit=TOP_N))
        assert (found.degraded, found.model) == (None, "text-embedding-v4")
        return [hit.capability for hit in found.results]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["scripted", "dashscope"])
async def assistant(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Assistant]:
    if NATS_URL is not None:
        pytest.skip("the server of SKILLBUS_TEST_NATS_URL is emptied for each test")
    folder = tmp_path_factory.mktemp("assistant")
    if request.param == "dashscope":
        required(KEY)
        provider = CreateProvider(name="models", kind=ProviderKind.DASHSCOPE, api_key=f"env:{KEY}", timeout_s=30)
        async with open_assistant(folder, provider) as opened:
            yield opened
        return
    async with serve_upstream(answer_provider) as upstream:
        provider = CreateProvider(name="models", kind=ProviderKind.DASHSCOPE, base_url=f"{upstream.url}/v1")
        async with open_assistant(folder, provider) as opened:
            yield opened


@asynccontextmanager
async def open_assistant(folder: Path, provider: CreateProvider) -> AsyncGenerator[Assistant]:
    """Start the system with the provider's models as its default ones."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(open_nats_server(folder / "nats"))
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        bus = await stack.enter_async_context(open_bus(settings, "test", CollectorRegistry()))
        await provision(bus.jetstream)
        outside = {"data": folder / "data", "private_addresses": "127.0.0.1"}
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings.model_validate(outside)))
        await register_models(bus, provider)
        store = await stack.enter_async_context(open_vector_store(None, folder / "vectors"))
        indexing = IndexerSettings(data=folder / "data", reconcile_every_s=3600)
        await stack.enter_async_context(open_indexer(bus, indexing, store))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(parser_timeout_s=30), store))
        await stack.enter_async_context(open_agent(bus, AgentSettings.model_validate(outside)))
        commands = tuple(json.loads(line) for line in LIBRARY.read_text("utf-8").splitlines())
        put = await bus.caller.call(PUT_COMMANDS, PutCommands(commands=commands), timeout_s=60)
        assert put.indexed
        await bus.caller.call(PUT_DEVICES, PutDevices(devices=HOME), timeout_s=60)
        yield Assistant(bus)


async def register_models(bus: Bus, provider: CreateProvider) -> None:
    """Register a chat model and an embedding model of a provider; one that cannot be reached skips the test."""
    await bus.caller.call(CREATE_PROVIDER, provider)
    await bus.caller.call(CREATE_MODEL, CreateModel(provider="models", name="qwen-flash", kind=ModelKind.CHAT))
    embedding = CreateModel(provider="models", name="text-embedding-v4", is_default=True, request_dimensions=True)
    try:
        await bus.caller.call(CREATE_MODEL, embedding.model_copy(update={"dimensions": 256}), timeout_s=60)
    except RequestError as error:
        skip_unreachable(error.message)


@pytest.mark.spec("context-retrieval.md § LLM 解析 QueryIR")
@pytest.mark.spec("context-retrieval.md § DashScopeLLM")
async def test_a_model_reads_the_action_of_a_sentence_and_what_it_is_about(assistant: Assistant) -> None:
    for sentence, wanted in SENTENCES.items():
        query = await assistant.parse(sentence)
        assert query.action == wanted["action"]
        read = query.model_dump(mode="json", exclude_defaults=True)
        about = [name for name in wanted if not name.startswith("action")]
        assert any(read.get(name) == wanted[name] for name in about), read


@pytest.mark.spec("context-retrieval.md § LLM → Embedding 的主路径联通")
async def test_the_action_that_a_model_reads_finds_commands_of_the_library(assistant: Assistant) -> None:
    sentence = "把客厅的灯调到三成亮"
    query = await assistant.parse(sentence)
    found = await assistant.find_capabilities(query.action or sentence)
    assert "switchLevel" in found


@pytest.mark.spec("context-retrieval.md § 命令 embedding top-N 命中（以命令 ID 为准）")
async def test_the_command_that_a_sentence_means_is_among_the_first(assistant: Assistant) -> None:
    found = {query: await assistant.find_capabilities(query) for query in QUERIES}
    assert not {query: found[query] for query, wanted in QUERIES.items() if wanted not in found[query]}


@pytest.mark.parametrize("assistant", ["scripted"], indirect=True)
async def test_a_provider_that_cannot_be_reached_skips_the_test(assistant: Assistant) -> None:
    async with serve_upstream(answer_provider) as upstream:
        closed = upstream.url
    before = await assistant.bus.caller.call(GET_PROVIDER, ProviderSelector(name="models"))
    await assistant.bus.caller.call(UPDATE_PROVIDER, UpdateProvider(name="models", base_url=f"{closed}/v1"))
    with pytest.raises(pytest.skip.Exception, match="cannot be reached"):
        await assistant.parse("打开卧室的灯")
    await assistant.bus.caller.call(UPDATE_PROVIDER, UpdateProvider(name="models", base_url=before.base_url))


@pytest.mark.spec("context-retrieval.md § 无密钥时跳过")
async def test_without_a_key_the_tests_of_the_provider_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(pytest.skip.Exception, match=f"{KEY} is not set"):
        required(KEY)
