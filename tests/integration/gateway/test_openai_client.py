"""OpenAI's own Python client against `/v1`, over a real bus."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx
import numpy as np
import openai
import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import route
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbeddingModel, EmbedTexts, TextsEmbedded
from skillbus.contracts.embedder.registry import (
    LIST_MODELS,
    LIST_PROVIDERS,
    ModelRecord,
    ModelsListed,
    ProviderKind,
    ProviderRecord,
    ProvidersListed,
)
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Empty, FloatMatrix
from skillbus.gateway.wiring import Gateway, open_gateway

from .conftest import OWNER_KEY, Serve, make_settings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = [f"text-{number}" for number in range(2048)]


@dataclass
class FakeEmbedder:
    """Vectors whose first number tells their text."""

    dim: int = 8
    refusals: list[RequestError] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    async def __call__(self, request: EmbedTexts) -> TextsEmbedded:
        self.sizes.append(len(request.texts))
        if self.refusals:
            raise self.refusals.pop(0)
        rows = np.full((len(request.texts), self.dim), 1 / 3, dtype="<f4")
        rows[:, 0] = [float(text.rpartition("-")[2]) if "-" in text else 0 for text in request.texts]
        model = EmbeddingModel(provider="local", name="use", fingerprint="f", dimensions=self.dim)
        dense = FloatMatrix(dim=self.dim, count=len(rows), data=rows.tobytes())
        return TextsEmbedded(model=model, dense=dense, tokens=3 * len(rows))


@pytest.fixture
async def embedder(serve: Serve) -> FakeEmbedder:
    fake = FakeEmbedder()
    await serve(route(EMBED_TEXTS, fake))
    return fake


@pytest.fixture
async def client(gateway: Gateway) -> AsyncGenerator[openai.AsyncOpenAI]:
    http = httpx.AsyncClient(trust_env=False)
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=OWNER_KEY, http_client=http) as opened:
        yield opened


async def test_the_client_gets_its_vectors_as_base64_by_default(
    client: openai.AsyncOpenAI, embedder: FakeEmbedder
) -> None:
    reply = await client.embeddings.create(model="use", input=["帮我提交代码", "text-7"])
    assert [item.index for item in reply.data] == [0, 1]
    assert reply.data[1].embedding == [7.0, *[float(np.float32(1 / 3))] * 7]
    assert (reply.model, reply.usage.prompt_tokens, reply.usage.total_tokens) == ("use", 6, 6)


@pytest.mark.parametrize("encoding", ["float", "base64"])
async def test_both_encodings_give_the_same_numbers(
    client: openai.AsyncOpenAI, embedder: FakeEmbedder, encoding: str
) -> None:
    usual = await client.embeddings.create(model="use", input="text-5")
    reply = await client.embeddings.create(model="use", input="text-5", extra_body={"encoding_format": encoding})
    assert reply.data[0].embedding == usual.data[0].embedding


def use_synchronously(url: str) -> tuple[list[float], list[str], str]:
    with (
        httpx.Client(trust_env=False) as http,
        openai.OpenAI(base_url=f"{url}/v1", api_key=OWNER_KEY, http_client=http) as client,
    ):
        vectors = client.embeddings.create(model="use", input=TEXTS)
        models = [model.id for model in client.models.list()]
        return [item.embedding[0] for item in vectors.data], models, client.models.retrieve("a/b").owned_by


async def test_the_synchronous_client_embeds_2048_texts_and_reads_the_models(
    gateway: Gateway, embedder: FakeEmbedder, serve: Serve
) -> None:
    times = {"version": 1, "created_at": NOW, "updated_at": NOW}
    local = ProviderRecord(name="local", kind=ProviderKind.LOCAL, **times)
    known = ModelRecord(id="0" * 32, provider="local", name="a/b", is_default=True, fingerprint="f", **times)

    async def providers(_: Empty) -> ProvidersListed:
        return ProvidersListed(providers=(local,))

    async def models(_: Empty) -> ModelsListed:
        return ModelsListed(models=(known,))

    await serve(route(LIST_PROVIDERS, providers), route(LIST_MODELS, models))
    firsts, names, owner = await asyncio.to_thread(use_synchronously, gateway.url)
    assert firsts == [float(number) for number in range(2048)]
    assert (names, owner) == (["a/b"], "local")
    assert sum(embedder.sizes) == 2048


async def test_vectors_too_wide_for_a_message_of_the_bus_come_whole_and_in_order(
    client: openai.AsyncOpenAI, embedder: FakeEmbedder
) -> None:
    embedder.dim = 4096
    reply = await client.embeddings.create(model="use", input=TEXTS[:300])
    assert [item.embedding[0] for item in reply.data] == [float(number) for number in range(300)]
    assert {len(item.embedding) for item in reply.data} == {4096}


async def test_the_client_raises_its_own_errors(client: openai.AsyncOpenAI, embedder: FakeEmbedder) -> None:
    once = client.with_options(max_retries=0)
    embedder.refusals = [RequestError(ErrorCode.NOT_FOUND, "no model 'x' is registered")]
    with pytest.raises(openai.NotFoundError) as missing:
        await client.embeddings.create(model="x", input="a")
    with pytest.raises(openai.BadRequestError) as empty:
        await client.embeddings.create(model="use", input="")
    with pytest.raises(openai.BadRequestError) as tokens:
        await client.embeddings.create(model="use", input=[[1, 2], [3]])
    embedder.refusals = [RequestError(ErrorCode.MODEL_UNAVAILABLE, "the provider does not answer")]
    with pytest.raises(openai.InternalServerError) as away:
        await once.embeddings.create(model="use", input="a")
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    assert (empty.value.param, tokens.value.param) == ("input", "input")
    assert (away.value.status_code, away.value.code) == (503, "model_unavailable")


async def test_the_client_comes_again_after_overload_and_not_after_a_failure(
    client: openai.AsyncOpenAI, embedder: FakeEmbedder
) -> None:
    embedder.refusals = [RequestError(ErrorCode.OVERLOADED, "try again later")]
    assert (await client.embeddings.create(model="use", input="a")).data
    embedder.refusals = [RequestError(ErrorCode.INTERNAL, "its log says why")] * 2
    with pytest.raises(openai.InternalServerError):
        await client.embeddings.create(model="use", input="a")
    assert len(embedder.sizes) == 3


async def test_the_owners_key_is_the_clients_api_key(bus: Bus, embedder: FakeEmbedder) -> None:
    async with (
        open_gateway(bus, make_settings()) as gateway,
        httpx.AsyncClient(trust_env=False) as http,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=OWNER_KEY, http_client=http) as client,
    ):
        assert (await client.embeddings.create(model="use", input="a")).data
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.with_options(api_key="another").embeddings.create(model="use", input="a")
    assert refused.value.code == "invalid_api_key"


async def body_in_parts() -> AsyncGenerator[bytes]:
    yield b'{"model": "use", "input": ['
    for number in range(400):
        yield (b"," if number else b"") + json.dumps(f"{'好' * 8000} text-{number}", ensure_ascii=False).encode()
    yield b"]}"


async def test_ten_megabytes_that_stream_in_are_embedded(http: httpx.AsyncClient, embedder: FakeEmbedder) -> None:
    answer = await http.post("/v1/embeddings", content=body_in_parts(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert [item["embedding"][0] for item in answer.json()["data"]] == [float(number) for number in range(400)]


async def endless_body() -> AsyncGenerator[bytes]:
    yield b'{"model": "use", "input": "'
    for _ in range(300):
        yield b"x" * 64 * 1024


async def test_a_body_without_end_is_refused_in_openais_form(http: httpx.AsyncClient, embedder: FakeEmbedder) -> None:
    answer = await http.post("/v1/embeddings", content=endless_body(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")
    assert not embedder.sizes


async def test_nobody_who_embeds_is_a_503(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as refused:
        await client.with_options(max_retries=0).embeddings.create(model="use", input="a")
    assert (refused.value.status_code, refused.value.code) == (503, "unavailable")
