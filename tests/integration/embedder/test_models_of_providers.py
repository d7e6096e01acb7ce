"""The embedder over the bus with providers over HTTP: who answers, and who does when one cannot."""

import time
from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np
import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.http_server import serve_http
from skillbus.common.testing import eventually
from skillbus.contracts.embedder import HEALTH
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbedTexts, TextRole, TextsEmbedded
from skillbus.contracts.embedder.registry import (
    CREATE_MODEL,
    CREATE_PROVIDER,
    TEST_PROVIDER,
    UPDATE_MODEL,
    UPDATE_PROVIDER,
    CreateModel,
    CreateProvider,
    ModelKind,
    ProviderKind,
    TestProvider,
    UpdateModel,
    UpdateProvider,
)
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import MSGPACK, Empty
from skillbus.embedder.wiring import open_embedder

from ...models import embedder_in
from ...unit.embedder.local_records import tiny_model
from .http.fake_provider import DIM, FakeProvider, openai_error, unit

TEXT = "自动分析Git改动并生成conventional commit信息"
SMALL = "text-embedding-3-small"


@pytest.fixture
async def provider() -> AsyncGenerator[FakeProvider]:
    fake = FakeProvider()
    async with serve_http(fake, "127.0.0.1", 0) as url:
        fake.url = url
        yield fake
        fake.release()


@pytest.fixture
async def embedder(bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Bus]:
    monkeypatch.setenv("ACME_KEY", "sk-canary-1234")
    settings = embedder_in(tmp_path, secrets="ACME_KEY=http://127.0.0.1", private_addresses="127.0.0.1")
    async with open_embedder(bus, settings):
        await eventually(lambda: bus.caller.call(HEALTH, Empty()), lambda health: health.ready, wait_s=20)
        yield bus


async def embed(bus: Bus, *texts: str, **more: object) -> TextsEmbedded:
    request = EmbedTexts.model_validate({"texts": texts, "role": TextRole.DOCUMENT, **more})
    return await bus.caller.call(EMBED_TEXTS, request, content_type=MSGPACK)


async def register(bus: Bus, provider: FakeProvider, name: str = SMALL, **fields: object) -> str:
    """A provider `openai` at the fake one, and a model of it; the model's id."""
    where = CreateProvider(
        name="openai", kind=ProviderKind.OPENAI, base_url=provider.url, api_key="env:ACME_KEY", timeout_s=5
    )
    await bus.caller.call(CREATE_PROVIDER, where)
    given = {"provider": "openai", "name": name, "dimensions": DIM, **fields}
    return (await bus.caller.call(CREATE_MODEL, CreateModel.model_validate(given))).id


@pytest.mark.spec("skill-vector-retrieval.md § LLMManager embed()方法调用流程")
async def test_a_text_goes_to_the_model_that_is_named_and_comes_back_as_its_vector(
    embedder: Bus, provider: FakeProvider
) -> None:
    """skill-vector-retrieval.md § LLMManager embed()方法调用流程"""
    await register(embedder, provider)

    started = time.process_time()
    found = await embed(embedder, TEXT, model=f"openai/{SMALL}")
    took_s = time.process_time() - started

    assert took_s < 1.0
    assert found.model is not None
    assert found.dense is not None
    assert (found.model.provider, found.model.name, found.model.dimensions) == ("openai", SMALL, DIM)
    assert found.dense.to_rows()[0] == pytest.approx(unit(TEXT), abs=1e-6)
    (seen,) = provider.seen
    assert seen.path == "/embeddings"
    assert seen.body == {"input": [TEXT], "model": SMALL, "encoding_format": "float"}
    assert seen.headers["authorization"] == "Bearer sk-canary-1234"
    assert found.tokens == 11


@pytest.mark.spec("skill-vector-retrieval.md § 运行时切换Embedding模型")
async def test_a_model_that_becomes_the_default_is_used_by_the_next_call(embedder: Bus, provider: FakeProvider) -> None:
    """skill-vector-retrieval.md § 运行时切换Embedding模型, § 读取外部API Embedding配置"""
    model = await register(embedder, provider)
    before = await embed(embedder, "one")

    await embedder.caller.call(UPDATE_MODEL, UpdateModel(id=model, is_default=True))
    after = await embed(embedder, "one")

    assert before.model is not None
    assert after.model is not None
    assert (before.model.name, after.model.name) == ("use-multilingual-v3", SMALL)
    old = await embed(embedder, "two", model=before.model.fingerprint)
    assert old.model == before.model


@pytest.mark.spec("skill-vector-retrieval.md § 读取本地Embedding模型配置")
async def test_a_stored_record_names_the_path_of_the_model_that_embeds(embedder: Bus, tmp_path: Path) -> None:
    """From the record in SQL to the files at its path to the vectors of that model."""
    tiny_model(tmp_path / "embedder" / "models" / "mine" / "tiny")
    created = await embedder.caller.call(CREATE_MODEL, CreateModel(provider="local", name="tiny", path="mine/tiny"))

    found = await embed(embedder, "git", "commit", model="tiny")

    assert (created.dimensions, created.path) == (3, "mine/tiny")
    assert found.model is not None
    assert found.model.fingerprint == created.fingerprint
    assert found.dense is not None
    assert np.allclose(found.dense.to_rows(), [[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]], atol=1e-6)


@pytest.mark.spec("knowledge-base.md § 降级到本地模型")
@pytest.mark.spec("knowledge-base.md § 向量化方式优先级 (LLM Provider → 本地 → TF-IDF)")
async def test_the_local_model_answers_for_a_provider_that_fails_and_the_reply_says_so(
    embedder: Bus, provider: FakeProvider
) -> None:
    """knowledge-base.md § 降级到本地模型"""
    await register(embedder, provider, is_default=True)
    provider.always = openai_error(401, "wrong key")

    found = await embed(embedder, TEXT)

    assert found.model is not None
    assert found.model.name == "use-multilingual-v3"
    assert [(one.provider, one.name) for one in found.skipped] == [("openai", SMALL)]
    assert "env:ACME_KEY" in found.skipped[0].reason
    assert "canary" not in found.model_dump_json()


@pytest.mark.spec("knowledge-base.md § 降级到本地模型")
async def test_a_provider_without_embeddings_is_passed_over(embedder: Bus) -> None:
    """knowledge-base.md § 降级到本地模型"""
    await embedder.caller.call(CREATE_PROVIDER, CreateProvider(name="claude", kind=ProviderKind.ANTHROPIC))
    given = CreateModel(provider="claude", name="claude-x", kind=ModelKind.CHAT, priority=1)
    await embedder.caller.call(CREATE_MODEL, given)

    found = await embed(embedder, TEXT)
    with pytest.raises(RequestError) as refused:
        await embed(embedder, TEXT, model="claude/claude-x")

    assert found.model is not None
    assert found.model.name == "use-multilingual-v3"
    assert found.skipped == ()
    assert (refused.value.code, "chat model" in refused.value.message) == (ErrorCode.INVALID_REQUEST, True)


@pytest.mark.spec("knowledge-base.md § 向量化方式优先级 (LLM Provider → 本地 → TF-IDF)")
async def test_words_remain_when_every_model_fails(embedder: Bus, provider: FakeProvider) -> None:
    """knowledge-base.md § 降级到TF-IDF"""
    await register(embedder, provider, is_default=True)
    provider.always = openai_error(401, "wrong key")
    await embedder.caller.call(UPDATE_PROVIDER, UpdateProvider(name="local", enabled=False))

    found = await embed(embedder, "查询 weather", role=TextRole.QUERY, sparse=True)

    assert (found.dense, found.model) == (None, None)
    assert found.sparse is not None
    assert "weather" in found.sparse[0].terms
    assert "openai" in (found.degraded or "")


@pytest.mark.spec("skill-vector-retrieval.md § 批量文本Embedding生成优化")
async def test_a_hundred_texts_are_one_request(embedder: Bus, provider: FakeProvider) -> None:
    """skill-vector-retrieval.md § 批量文本Embedding生成优化"""
    await register(embedder, provider)
    texts = [f"tool {number}" for number in range(100)]

    found = await embed(embedder, *texts, model=SMALL)

    assert len(provider.seen) == 1
    assert provider.seen[0].texts == texts
    assert found.dense is not None
    assert found.dense.to_rows()[57] == pytest.approx(unit("tool 57"), abs=1e-6)


async def test_a_provider_is_tried_past_the_cache_and_says_why_it_fails(embedder: Bus, provider: FakeProvider) -> None:
    await register(embedder, provider)
    first = await embedder.caller.call(TEST_PROVIDER, TestProvider(name="openai"))
    again = await embedder.caller.call(TEST_PROVIDER, TestProvider(name="openai"))
    provider.always = openai_error(404, "no such model", code="model_not_found")
    failed = await embedder.caller.call(TEST_PROVIDER, TestProvider(name="openai"))

    assert (first.ok, again.ok, first.dimensions, len(provider.seen)) == (True, True, DIM, 3)
    assert (failed.ok, failed.error is not None) == (False, True)


async def test_a_model_of_unknown_dimensions_is_asked_for_them(embedder: Bus, provider: FakeProvider) -> None:
    where = CreateProvider(name="openai", kind=ProviderKind.OPENAI, base_url=provider.url, api_key="env:ACME_KEY")
    await embedder.caller.call(CREATE_PROVIDER, where)

    made = await embedder.caller.call(CREATE_MODEL, CreateModel(provider="openai", name=SMALL))
    provider.always = openai_error(401, "wrong key")
    with pytest.raises(RequestError) as refused:
        await embedder.caller.call(CREATE_MODEL, CreateModel(provider="openai", name="other"))

    assert (made.dimensions, made.fingerprint is not None) == (DIM, True)
    assert refused.value.code == ErrorCode.MODEL_UNAVAILABLE
    assert "dimensions" in refused.value.message
