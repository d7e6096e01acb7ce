"""`/v1/embeddings` and `/v1/models`: OpenAI's form, in pieces over the bus."""

import asyncio
import base64
import json
import struct
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from skillbus.common.paging import MESSAGE_BYTES
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbeddingModel, EmbedTexts, TextRole, TextsEmbedded
from skillbus.contracts.embedder.registry import (
    LIST_MODELS,
    LIST_PROVIDERS,
    ModelKind,
    ModelRecord,
    ModelsListed,
    ProviderKind,
    ProvidersListed,
)
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode, RequestError
from skillbus.contracts.message import JSON, FloatMatrix, Message
from skillbus.gateway.domain.openai import CONCURRENT_PIECES

from .fakes import KEY, FakeCaller, ReplyT, RequestT, World
from .test_models import MODEL, PROVIDER

HEADERS = {"Content-Type": "application/json"}
MIB = 1024 * 1024


def vector(text: str, dim: int) -> list[float]:
    """Tells which text it is of: exact in float32."""
    return [float(text.rsplit("-", 1)[-1]) if "-" in text else 0.5] + [0.25] * (dim - 1)


@dataclass
class FakeEmbedder:
    """Vectors that tell their texts. A reply of more than `reply_bytes` is refused, as NATS would."""

    dim: int = 4
    reply_bytes: int = MIB
    fingerprint: Callable[[int], str] = lambda _: "f"
    requests: list[EmbedTexts] = field(default_factory=list)

    def __call__(self, request: Message) -> Message | Exception:
        assert isinstance(request, EmbedTexts)
        self.requests.append(request)
        count = len(request.texts)
        if count * self.dim * 4 > self.reply_bytes:
            return RequestError(ErrorCode.PAYLOAD_TOO_LARGE, "The reply is over what NATS takes.")
        rows = [number for text in request.texts for number in vector(text, self.dim)]
        model = EmbeddingModel(
            provider="remote", name="bge-m3", fingerprint=self.fingerprint(len(self.requests)), dimensions=self.dim
        )
        dense = FloatMatrix(dim=self.dim, count=count, data=struct.pack(f"<{len(rows)}f", *rows))
        return TextsEmbedded(model=model, dense=dense, tokens=count)


def world_with(embedder: Callable[[Message], Message | Exception]) -> World:
    world = World()
    world.caller.on(EMBED_TEXTS, embedder)
    return world


async def embed(world: World, **body: object) -> httpx.Response:
    async with world.client() as client:
        return await client.post("/v1/embeddings", json={"model": "bge-m3", **body})


async def test_a_text_becomes_a_list_of_one_vector_and_its_usage() -> None:
    embedder = FakeEmbedder()
    answer = await embed(world_with(embedder), input="帮我提交代码")
    assert answer.json() == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25, 0.25, 0.25]}],
        "model": "bge-m3",
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }
    assert answer.headers["Content-Type"] == "application/json"
    assert embedder.requests == [EmbedTexts(texts=("帮我提交代码",), model="bge-m3", role=TextRole.DOCUMENT)]


async def test_base64_is_of_little_endian_float32() -> None:
    answer = await embed(world_with(FakeEmbedder()), input=["a-3", "a-5"], encoding_format="base64")
    decoded = [struct.unpack("<4f", base64.b64decode(item["embedding"])) for item in answer.json()["data"]]
    assert decoded == [(3, 0.25, 0.25, 0.25), (5, 0.25, 0.25, 0.25)]


@pytest.mark.parametrize("encoding", ["float", "base64"])
@pytest.mark.parametrize(("count", "dim"), [(128, 4), (129, 4), (2048, 4), (300, 3072), (2, 70_000)])
async def test_vectors_of_many_texts_come_in_order_however_they_are_split(count: int, dim: int, encoding: str) -> None:
    embedder = FakeEmbedder(dim)
    texts = [f"text-{number}" for number in range(count)]
    answer = await embed(world_with(embedder), input=texts, encoding_format=encoding)
    reply = answer.json()
    data = [item["embedding"] for item in reply["data"]]
    firsts = [struct.unpack_from("<f", base64.b64decode(item))[0] if encoding == "base64" else item[0] for item in data]
    assert firsts == list(range(count))
    assert [item["index"] for item in reply["data"]] == list(range(count))
    assert reply["usage"]["total_tokens"] == count
    assert all(len(request.texts) <= 512 for request in embedder.requests)


async def test_long_texts_go_in_several_messages_of_the_bus() -> None:
    embedder = FakeEmbedder()
    answer = await embed(world_with(embedder), input=["好" * 32_768] * 40)
    assert len(answer.json()["data"]) == 40
    sizes = [sum(len(text.encode()) for text in request.texts) for request in embedder.requests]
    assert max(sizes) <= MESSAGE_BYTES
    assert len(sizes) == 5


async def test_one_text_whose_reply_is_too_large_for_the_bus_is_told() -> None:
    answer = await embed(world_with(FakeEmbedder(dim=8, reply_bytes=16)), input=["a", "b"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")


@pytest.mark.parametrize(
    ("given", "role"), [({}, "document"), ({"input_type": None}, "document"), ({"input_type": "query"}, "query")]
)
async def test_a_text_is_a_document_unless_it_is_said_to_be_a_query(given: dict[str, object], role: str) -> None:
    embedder = FakeEmbedder()
    answer = await embed(
        world_with(embedder), input="x", user="someone", encoding_format=None, dimensions=None, **given
    )
    assert answer.status_code == 200
    assert embedder.requests[0].role == role


@pytest.mark.parametrize(
    ("param", "body"),
    [
        ("input", {}),
        ("input", {"input": None}),
        ("input", {"input": 7}),
        ("input", {"input": {}}),
        ("input", {"input": ""}),
        ("input", {"input": []}),
        ("input", {"input": ["a", ""]}),
        ("input", {"input": ["a", None]}),
        ("input", {"input": [1, 2, 3]}),
        ("input", {"input": [[1, 2], [3]]}),
        ("input", {"input": [[]]}),
        ("input", {"input": ["x"] * 2049}),
        ("input", {"input": ["x"] * 3000}),
        ("input", {"input": "x" * (10 * MIB)}),
        ("input", {"input": "好" * 32_769}),
        ("model", {"input": "x", "model": ""}),
        ("model", {"input": "x", "model": None}),
        ("model", {"input": "x", "model": "a\0b"}),
        ("model", {"input": "x", "model": "m" * 301}),
        ("encoding_format", {"input": "x", "encoding_format": "int8"}),
        ("input_type", {"input": "x", "input_type": "image"}),
        ("dimensions", {"input": "x", "dimensions": 0}),
        ("dimensions", {"input": "x", "dimensions": True}),
        ("dimensions", {"input": "x", "dimensions": "4"}),
    ],
)
async def test_what_cannot_be_embedded_is_a_400_that_names_the_field(param: str, body: dict[str, object]) -> None:
    embedder = FakeEmbedder()
    answer = await embed(world_with(embedder), **body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert error.keys() == {"message", "type", "param", "code"}
    assert len(answer.content) < 1000
    assert not embedder.requests


async def test_token_ids_are_refused_with_what_to_do() -> None:
    error = (await embed(world_with(FakeEmbedder()), input=[[1, 2], [3]])).json()["error"]
    assert "check_embedding_ctx_length=False" in error["message"]


@pytest.mark.parametrize(
    "content",
    [
        b'{"model": "m", "input": "\\ud800"}',
        b'{"model": "m", "input": ["\\udfff\\ud800"]}',
        b'{"model": "m", "input": "\xff"}',
        b'{"model": "m", "input": "x"',
        b"[" * 100_000,
        b"null",
        b"",
    ],
)
async def test_a_body_that_is_no_json_in_utf8_is_an_error_in_openais_form(content: bytes) -> None:
    async with World().client() as client:
        answer = await client.post("/v1/embeddings", content=content, headers=HEADERS)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_nul_and_odd_characters_in_a_text_reach_the_embedder_as_they_are() -> None:
    embedder = FakeEmbedder()
    texts = ("a\0b", "\ufdfa" * 50, "\U0001f600", " ")
    assert (await embed(world_with(embedder), input=texts)).status_code == 200
    assert embedder.requests[0].texts == texts


async def test_dimensions_are_those_of_the_model_or_a_400_with_advice() -> None:
    world = world_with(FakeEmbedder(dim=4))
    right = await embed(world, input="x", dimensions=4)
    wrong = await embed(world, input="x", dimensions=3)
    assert right.status_code == 200
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "dimensions")
    assert "4 dimensions" in wrong.json()["error"]["message"]


@pytest.mark.parametrize("code", list(ErrorCode))
async def test_every_error_of_the_contract_has_openais_form_and_its_status(code: ErrorCode) -> None:
    answer = await embed(world_with(lambda _: RequestError(code, "What to do.")), input="x")
    status = ERROR_CLASSES[code].status
    assert answer.status_code == status
    assert answer.json().keys() == {"error"}
    assert answer.json()["error"]["message"] == "What to do." or code is ErrorCode.NOT_FOUND
    assert ("Retry-After" in answer.headers) == (status in {429, 503})
    assert answer.headers["x-should-retry"] == ("true" if ERROR_CLASSES[code].retryable else "false")


async def test_a_model_that_nobody_knows_is_not_found_as_openai_says_it() -> None:
    answer = await embed(world_with(lambda _: RequestError(ErrorCode.NOT_FOUND, "no model 'x'")), input="x")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert "bge-m3" in error["message"]


async def test_a_text_that_the_model_fails_on_is_counted_from_the_first_of_the_input() -> None:
    def fail(request: Message) -> Message | Exception:
        assert isinstance(request, EmbedTexts)
        if "bad" not in request.texts:
            return FakeEmbedder()(request)
        at = request.texts.index("bad")
        said = f"the model failed on text {at}: why; send the others without it"
        return RequestError(ErrorCode.INVALID_REQUEST, said, details={"text_index": at})

    texts = ["good"] * 200
    texts[130] = "bad"
    answer = await embed(world_with(fail), input=texts)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "input")
    assert "text 130: why" in error["message"]


async def test_no_vectors_are_a_503_and_never_an_empty_list() -> None:
    world = world_with(lambda _: TextsEmbedded(model=None, degraded="lexical"))
    answer = await embed(world, input="x")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "model_unavailable")
    assert answer.headers["Retry-After"] == "2"


class SilentCaller(FakeCaller):
    """Is asked, and never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.all_asked = asyncio.Event()
        self.given_up = 0

    async def call(
        self,
        endpoint: Endpoint[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_s: float | None = None,
        content_type: str = JSON,
    ) -> ReplyT:
        self.asked.append((endpoint.name, request))
        if len(self.asked) == CONCURRENT_PIECES:
            self.all_asked.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            self.given_up += 1


async def test_what_nobody_waits_for_any_more_is_not_embedded() -> None:
    caller, statuses = SilentCaller(), list[int]()
    messages = [{"type": "http.request", "body": json.dumps({"model": "m", "input": ["x"] * 2048}).encode()}]

    async def receive() -> dict[str, object]:
        if messages:
            return messages.pop()
        await caller.all_asked.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        statuses.append(message.get("status", 0))

    scope = {"type": "http", "method": "POST", "path": "/v1/embeddings", "query_string": b""}
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", b"9000")]
    async with asyncio.timeout(5):
        await World(caller=caller).app()({**scope, "headers": headers}, receive, send)
    assert (statuses[0], len(caller.asked), caller.given_up) == (499, CONCURRENT_PIECES, CONCURRENT_PIECES)


async def test_vectors_of_two_models_never_meet_in_an_answer() -> None:
    changing = FakeEmbedder(fingerprint=lambda request: "a" if request < 3 else "b")
    answer = await embed(world_with(changing), input=["x"] * 600)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")


async def test_a_reply_of_fewer_vectors_than_texts_is_an_error() -> None:
    def lose(request: Message) -> Message | Exception:
        assert isinstance(request, EmbedTexts)
        return FakeEmbedder()(request.model_copy(update={"texts": request.texts[1:]}))

    answer = await embed(world_with(lose), input=["a", "b"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "server_error")


@pytest.mark.parametrize(
    ("status", "kind", "method", "path", "headers", "content"),
    [
        (401, "authentication_error", "POST", "/v1/embeddings", {"Authorization": "Bearer x"}, b"{}"),
        (401, "authentication_error", "GET", "/v1/models", {"Authorization": ""}, b""),
        (404, "invalid_request_error", "POST", "/v1/audio", {}, b"{}"),
        (405, "invalid_request_error", "GET", "/v1/embeddings", {}, b""),
        (413, "invalid_request_error", "POST", "/v1/embeddings", {}, b" " * (16 * MIB + 1)),
        (413, "invalid_request_error", "POST", "/v1/embeddings", {}, b'{"input": [' + b"1," * MIB + b"1]}"),
    ],
    ids=["key", "no key", "path", "method", "bytes", "values"],
)
async def test_errors_before_a_handler_have_openais_form_too(
    status: int, kind: str, method: str, path: str, headers: dict[str, str], content: bytes
) -> None:
    world = World(key=KEY)
    began = time.monotonic()
    async with world.client() as client:
        answer = await client.request(method, path, headers=HEADERS | headers, content=content)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
    assert time.monotonic() - began < 2
    assert not world.caller.asked


async def test_who_asks_the_responses_api_is_told_which_setting_to_use() -> None:
    async with World(key=KEY).client() as client:
        answer = await client.post("/v1/responses", headers=HEADERS, json={"model": "auto", "input": "Hi"})
    assert answer.status_code == 404
    assert 'set_default_openai_api("chat_completions")' in answer.json()["error"]["message"]


async def test_other_paths_keep_their_problem_documents() -> None:
    async with World().client() as client:
        answer = await client.get("/v1")
    assert answer.headers["Content-Type"] == "application/problem+json"


def of(model: ModelRecord, **changed: object) -> ModelRecord:
    return model.model_copy(update=changed)


def registered(*models: ModelRecord, **provider: object) -> World:
    world = World()
    other = PROVIDER.model_copy(update={"name": "other", **provider})
    world.caller.on(LIST_PROVIDERS, lambda _: ProvidersListed(providers=(PROVIDER, other)))
    world.caller.on(LIST_MODELS, lambda _: ModelsListed(models=models))
    return world


async def test_models_are_listed_by_names_that_embeddings_can_be_asked_by() -> None:
    shared = of(MODEL, name="bge-m3"), of(MODEL, name="bge-m3", provider="other")
    world = registered(MODEL, *shared, of(MODEL, name="off", enabled=False))
    async with world.client() as client:
        listed = (await client.get("/v1/models")).json()
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["BAAI/bge-m3", "remote/bge-m3", "other/bge-m3"]
    assert listed["data"][0] == {
        "id": "BAAI/bge-m3",
        "object": "model",
        "created": 1767225600,
        "owned_by": "remote",
        "kind": "embedding",
        "dimensions": 1024,
        "fingerprint": "0123456789ab",
    }


@pytest.mark.parametrize("changed", [{"enabled": False}, {"kind": ProviderKind.ANTHROPIC}])
async def test_models_that_no_text_can_be_embedded_with_are_not_listed(changed: dict[str, object]) -> None:
    async with registered(MODEL, of(MODEL, provider="other"), **changed).client() as client:
        listed = (await client.get("/v1/models")).json()
    assert [model["owned_by"] for model in listed["data"]] == ["remote"]


async def test_chat_models_are_listed_with_their_kind_also_those_of_anthropic() -> None:
    chat = of(MODEL, name="claude", provider="other", kind=ModelKind.CHAT, fingerprint=None, dimensions=None)
    async with registered(MODEL, chat, kind=ProviderKind.ANTHROPIC).client() as client:
        listed = (await client.get("/v1/models")).json()["data"]
        one = (await client.get("/v1/models/other/claude")).json()
    assert [(model["id"], model["kind"]) for model in listed] == [("BAAI/bge-m3", "embedding"), ("claude", "chat")]
    assert (one["id"], one["dimensions"], one["fingerprint"]) == ("claude", None, None)


async def test_a_chat_model_embeds_nothing_and_the_error_names_the_field() -> None:
    problem = "'claude' is a chat model and makes no vectors; name an embedding model"
    fields = {"fields": [{"field": "model", "problem": problem}]}
    answer = await embed(
        world_with(lambda _: RequestError(ErrorCode.INVALID_REQUEST, problem, details=fields)), input="x"
    )
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["message"]) == (400, "model", problem)


@pytest.mark.parametrize("word", ["BAAI/bge-m3", "BAAI%2Fbge-m3", "remote/BAAI/bge-m3", "0123456789ab", MODEL.id])
async def test_a_model_is_found_by_every_word_that_embeddings_take(word: str) -> None:
    async with registered(MODEL).client() as client:
        answer = await client.get(f"/v1/models/{word}")
    assert (answer.status_code, answer.json()["id"]) == (200, "BAAI/bge-m3")


async def test_a_model_that_is_not_there_is_model_not_found() -> None:
    async with registered(MODEL).client() as client:
        answer = await client.get("/v1/models/gpt-4o")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


async def test_the_documentation_shows_what_embeddings_take_and_give() -> None:
    async with World().client() as client:
        document = (await client.get("/openapi.json")).json()
    operation = document["paths"]["/v1/embeddings"]["post"]
    content = operation["requestBody"]["content"]["application/json"]
    assert content["example"]["input"]
    assert content["schema"]["$ref"].endswith("/EmbeddingsBody")
    assert operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/OpenAiEmbeddings")
    given = json.dumps(document["components"]["schemas"]["EmbeddingsBody"]["properties"]["input"])
    assert '"string"' in given
    assert '"array"' in given
