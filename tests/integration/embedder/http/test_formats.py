"""What goes over the wire to each kind of provider, and what comes of its answers."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from skillbus.common.outbound.addresses import AddressRule
from skillbus.common.outbound.secret_grants import SecretGrants
from skillbus.common.secrets import Secrets
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.embedder.adapters.http.model import HttpModel, build_http_spec
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import check_rows
from skillbus.providers.client import ProviderClients

from .conftest import KEY, OpenModel, a_model, registered
from .fake_provider import DIM, FakeProvider, as_json, unit

TEXTS = ["Git提交工具", "文件读取工具", "计算工具"]


@pytest.mark.spec("skill-vector-retrieval.md § 适配器embed方法实现（OpenAIAdapter）")
async def test_openai_gets_all_texts_in_one_request_and_its_vectors_come_in_their_order(
    provider: FakeProvider, opened: OpenModel
) -> None:
    """skill-vector-retrieval.md § 适配器embed方法实现（OpenAIAdapter）"""
    provider.dim = 1536
    model = await opened(model=a_model(name="text-embedding-3-small", dimensions=1536))
    made = await model.embed(TEXTS, TextRole.DOCUMENT)
    (seen,) = provider.seen
    assert seen.path == "/embeddings"
    assert seen.body == {"input": TEXTS, "model": "text-embedding-3-small", "encoding_format": "float"}
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert made.rows.shape == (3, 1536)
    np.testing.assert_allclose(made.rows, [unit(text, 1536) for text in TEXTS], atol=1e-6)
    assert made.tokens == 11


@pytest.mark.spec("skill-vector-retrieval.md § OllamaAdapter embed方法实现")
@pytest.mark.spec("knowledge-base.md § 使用Ollama生成向量")
async def test_ollama_gets_a_single_text_as_a_string(provider: FakeProvider, opened: OpenModel) -> None:
    """skill-vector-retrieval.md § OllamaAdapter embed方法实现; knowledge-base.md § 使用Ollama生成向量"""
    provider.dim = 768
    model = await opened(ProviderKind.OLLAMA, a_model(name="nomic-embed-text", dimensions=768), api_key=None)
    made = await model.embed(["代码分析工具"], TextRole.DOCUMENT)
    (seen,) = provider.seen
    assert seen.path == "/api/embed"
    assert seen.body == {"model": "nomic-embed-text", "input": "代码分析工具", "options": {"truncate": True}}
    assert "authorization" not in seen.headers
    np.testing.assert_allclose(made.rows, [unit("代码分析工具", 768)], atol=1e-6)
    assert made.tokens == 7


async def test_ollama_gets_several_texts_as_a_list(provider: FakeProvider, opened: OpenModel) -> None:
    model = await opened(ProviderKind.OLLAMA)
    made = await model.embed(TEXTS, TextRole.DOCUMENT)
    assert provider.seen[0].body["input"] == TEXTS
    np.testing.assert_allclose(made.rows, [unit(text) for text in TEXTS], atol=1e-6)


@pytest.mark.spec("context-retrieval.md § DashScope text-embedding-v4")
async def test_dashscope_is_asked_in_openais_format(provider: FakeProvider, opened: OpenModel) -> None:
    provider.dim = 256
    model = a_model(name="text-embedding-v4", dimensions=256, request_dimensions=True)
    dashscope = await opened(ProviderKind.DASHSCOPE, model, url=f"{provider.url}/compatible-mode/v1")
    await dashscope.embed(TEXTS, TextRole.DOCUMENT)
    assert provider.seen[0].path == "/compatible-mode/v1/embeddings"
    expected = {"input": TEXTS, "model": "text-embedding-v4", "encoding_format": "float", "dimensions": 256}
    assert provider.seen[0].body == expected


async def test_gemini_is_asked_in_openais_format_and_may_omit_the_first_index(
    provider: FakeProvider, opened: OpenModel
) -> None:
    vectors = [{"object": "embedding", "index": at, "embedding": unit(text)} for at, text in enumerate(TEXTS)]
    del vectors[0]["index"]
    provider.always = as_json({"object": "list", "data": vectors, "model": "gemini-embedding-001"})
    gemini = await opened(ProviderKind.GEMINI, a_model(name="gemini-embedding-001"), url=f"{provider.url}/openai")
    made = await gemini.embed(TEXTS, TextRole.DOCUMENT)
    (seen,) = provider.seen
    assert seen.path == "/openai/embeddings"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    np.testing.assert_allclose(made.rows, [unit(text) for text in TEXTS], atol=1e-6)


@pytest.mark.spec("skill-vector-retrieval.md § 读取外部API Embedding配置")
async def test_the_address_is_that_of_the_provider_and_the_path_of_the_model(
    provider: FakeProvider, opened: OpenModel
) -> None:
    """skill-vector-retrieval.md § 读取外部API Embedding配置"""
    provider.dim = 512
    model = a_model(name="text-embedding-3-small", dimensions=512, api_path="/custom/embeddings")
    made = await (await opened(model=model, url=f"{provider.url}/v1/", timeout_s=10.0)).embed(["a"], TextRole.DOCUMENT)
    assert provider.seen[0].path == "/v1/custom/embeddings"
    assert provider.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert made.rows.shape == (1, 512)


@pytest.mark.spec("skill-vector-retrieval.md § 读取外部API Embedding配置")
async def test_what_comes_later_than_the_timeout_is_not_waited_for(provider: FakeProvider, opened: OpenModel) -> None:
    """skill-vector-retrieval.md § 读取外部API Embedding配置"""
    provider.hold()
    model = await opened(timeout_s=0.1)
    with pytest.raises(ModelUnavailableError, match=r"did not answer in full within 0\.1 s"):
        await model.embed(["a"], TextRole.DOCUMENT)
    assert len(provider.seen) == 1


@pytest.mark.spec("skill-vector-retrieval.md § 批量文本Embedding生成优化")
async def test_a_hundred_texts_are_one_request_and_have_the_same_vectors_as_a_hundred_requests(
    provider: FakeProvider, opened: OpenModel
) -> None:
    """skill-vector-retrieval.md § 批量文本Embedding生成优化"""
    model = await opened()
    texts = [f"工具 {number}" for number in range(100)]
    assert model.spec.batch_texts >= 100
    together = await model.embed(texts, TextRole.DOCUMENT)
    assert len(provider.seen) == 1
    alone = [await model.embed([text], TextRole.DOCUMENT) for text in texts]
    assert len(provider.seen) == 101
    np.testing.assert_array_equal(together.rows, np.concatenate([made.rows for made in alone]))


async def test_prefixes_go_before_the_text_by_its_role(provider: FakeProvider, opened: OpenModel) -> None:
    model = await opened(model=a_model(query_prefix="query: ", document_prefix="passage: "))
    await model.embed(["a"], TextRole.QUERY)
    await model.embed(["a"], TextRole.DOCUMENT)
    assert [seen.texts for seen in provider.seen] == [["query: a"], ["passage: a"]]


async def test_dimensions_are_asked_for_only_of_models_that_can_shorten(
    provider: FakeProvider, opened: OpenModel
) -> None:
    await (await opened(model=a_model(request_dimensions=True))).embed(["a"], TextRole.DOCUMENT)
    await (await opened(model=a_model(request_dimensions=False))).embed(["a"], TextRole.DOCUMENT)
    assert [seen.body.get("dimensions") for seen in provider.seen] == [DIM, None]


async def test_a_model_of_unknown_dimensions_tells_them_by_the_width_of_its_rows(
    provider: FakeProvider, opened: OpenModel
) -> None:
    provider.dim = 24
    model = await opened(model=a_model(dimensions=None, request_dimensions=True))
    assert model.spec.dim == 0
    assert (await model.embed(["a"], TextRole.DOCUMENT)).rows.shape == (1, 24)
    assert "dimensions" not in provider.seen[0].body


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e300])
async def test_rows_have_length_one_whatever_the_provider_makes_of_them(
    provider: FakeProvider, opened: OpenModel, scale: float
) -> None:
    numbers = [scale * number for number in (1, -2, 3, 0, 0, 0, 0, 0.5)]
    provider.always = as_json({"data": [{"index": 0, "embedding": numbers}]})
    made = await (await opened()).embed(["a"], TextRole.DOCUMENT)
    check_rows(made.rows, 1, DIM)
    assert made.rows.dtype == np.float32
    assert made.tokens is None


async def test_requests_stay_within_the_providers_concurrency_whichever_model_they_are_for(
    provider: FakeProvider, opened: OpenModel
) -> None:
    provider.latency_s = 0.01
    first, second = [await opened(model=a_model(name=name), max_concurrency=2) for name in ("m", "n")]
    await asyncio.gather(*(model.embed(["a"], TextRole.DOCUMENT) for model in (first, second) * 5))
    assert len(provider.seen) == 10
    assert provider.most_at_once == 2


async def test_connections_are_kept_and_shared(provider: FakeProvider, opened: OpenModel) -> None:
    first, second = [await opened(model=a_model(name=name)) for name in ("m", "n")]
    await first.close()
    assert (await second.embed(["a"], TextRole.DOCUMENT)).rows.shape == (1, DIM)
    with pytest.raises(ModelUnavailableError, match="not open"):
        await first.embed(["a"], TextRole.DOCUMENT)


async def test_closing_a_model_ends_what_it_waits_for(provider: FakeProvider, opened: OpenModel) -> None:
    provider.hold()
    model = await opened()
    asking = asyncio.create_task(model.embed(["a"], TextRole.DOCUMENT))
    await provider.arrival()
    await model.close()
    await model.close()
    with pytest.raises(ModelUnavailableError, match="not open"):
        await asking


async def test_a_closed_set_of_providers_opens_no_model(tmp_path: Path) -> None:
    providers = ProviderClients(Secrets(SecretGrants(), {}, tmp_path), AddressRule())
    await providers.close()
    with pytest.raises(ModelUnavailableError, match="shutting down"):
        await HttpModel(registered("http://127.0.0.1:9"), a_model(), providers).open()


async def test_a_key_that_is_exchanged_is_used_by_the_next_request(
    provider: FakeProvider, opened: OpenModel, environment: dict[str, str]
) -> None:
    model = await opened()
    await model.embed(["a"], TextRole.DOCUMENT)
    environment["ACME_KEY"] = "sk-next"
    await model.embed(["a"], TextRole.DOCUMENT)
    assert [seen.headers["authorization"] for seen in provider.seen] == [f"Bearer {KEY}", "Bearer sk-next"]


async def test_without_its_key_a_provider_is_not_asked(
    provider: FakeProvider, opened: OpenModel, environment: dict[str, str]
) -> None:
    environment.clear()
    model = await opened()
    with pytest.raises(ModelUnavailableError, match="env:ACME_KEY"):
        await model.embed(["a"], TextRole.DOCUMENT)
    assert not provider.seen


@pytest.mark.parametrize("kind", [ProviderKind.ANTHROPIC, ProviderKind.LOCAL])
def test_kinds_without_embeddings_over_http_are_told(kind: ProviderKind, providers: ProviderClients) -> None:
    with pytest.raises(ModelUnavailableError):
        build_http_spec(registered(None, kind), a_model())
    with pytest.raises(ModelUnavailableError):
        HttpModel(registered(None, kind), a_model(), providers)


@pytest.mark.parametrize("address", ["http://a:65536/v1", "http://a:0/v1", "http://xn--/v1"])
def test_an_address_that_is_none_is_told_before_anything_is_sent(providers: ProviderClients, address: str) -> None:
    with pytest.raises(ModelUnavailableError, match="correct its base_url"):
        HttpModel(registered(address), a_model(), providers)
