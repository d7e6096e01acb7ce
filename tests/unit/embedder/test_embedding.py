"""The embedder's one entry, on models that a test holds and releases."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from skillbus.contracts.embedder.embedding import EmbedTexts, TextRole
from skillbus.embedder.domain.embedding import EmbeddingService
from skillbus.embedder.domain.errors import (
    EmbedderClosedError,
    ModelFilesBrokenError,
    ModelUnavailableError,
    ModelUnknownError,
    OverloadedError,
)
from skillbus.embedder.domain.inference.batcher import VectorCache
from skillbus.embedder.domain.inference.model_pool import ModelPool
from skillbus.relevance.lexical.encoder import LexicalEncoder

from .fakes import WAIT_S, FakeModel, FakeRegistry, registered_model, vector_of


def query(*texts: str, model: str | None = None, dense: bool = True, sparse: bool = False) -> EmbedTexts:
    return EmbedTexts(texts=texts, role=TextRole.QUERY, model=model, dense=dense, sparse=sparse)


@asynccontextmanager
async def service_of(registry: FakeRegistry, queued: int = 100) -> AsyncIterator[EmbeddingService]:
    async with asyncio.timeout(WAIT_S), ModelPool(registry.make, VectorCache(), queued=queued) as pool:
        try:
            yield EmbeddingService(registry, pool, LexicalEncoder())
        finally:
            for model in registry.models.values():
                model.release_all()


async def test_dense_and_sparse_vectors_come_in_one_answer() -> None:
    async with service_of(FakeRegistry(first=FakeModel())) as service:
        found = await service.embed_request(EmbedTexts(texts=("读取文件", "git"), role=TextRole.DOCUMENT, sparse=True))
    assert found.dense is not None
    assert found.dense.shape == (2, 8)
    assert found.sparse is not None
    assert found.sparse[1].terms == ("git",)
    assert found.model is not None
    assert (found.model.model.name, found.degraded, found.skipped) == ("first", None, ())


async def test_sparse_vectors_alone_do_not_open_the_model() -> None:
    registry = FakeRegistry(first=FakeModel())
    async with service_of(registry) as service:
        found = await service.embed_request(query("git", dense=False, sparse=True))
    assert (found.dense, found.model, found.degraded, registry.made) == (None, None, None, [])
    assert found.sparse is not None


async def test_long_texts_are_encoded_alike_in_a_thread() -> None:
    async with service_of(FakeRegistry(first=FakeModel())) as service:
        found = await service.embed_request(query("git " * 2000, dense=False, sparse=True))
    assert found.sparse is not None
    assert found.sparse[0].terms == ("git",)


async def test_a_model_is_opened_once_by_many_who_ask_at_the_same_time() -> None:
    """skill-vector-retrieval.md § 本地Embedding模型加载和缓存"""
    registry = FakeRegistry(first=FakeModel())
    async with service_of(registry) as service:
        await asyncio.gather(*(service.embed_request(query(f"text {n}")) for n in range(20)))
        await service.embed_request(query("later"))
    assert registry.made == ["first"]
    assert registry.models["first"].closed


async def test_callers_wait_while_the_model_loads() -> None:
    model = FakeModel()
    model.hold()
    async with service_of(FakeRegistry(first=model)) as service:
        call = asyncio.create_task(service.embed_request(query("text")))
        await asyncio.sleep(0)
        assert not call.done()
        model.release_all()
        assert (await call).degraded is None


async def test_a_caller_with_no_time_left_gets_the_sparse_vectors_while_the_model_loads() -> None:
    model = FakeModel()
    model.hold()
    async with service_of(FakeRegistry(first=model)) as service:
        found = await service.embed_request(query("git", sparse=True), load_wait_s=0)
    assert found.dense is None
    assert "still loading" in (found.degraded or "")


async def test_a_model_that_fails_to_load_is_warned_of_and_leaves_the_sparse_vectors() -> None:
    """skill-vector-retrieval.md § 嵌入模型加载失败; knowledge-base.md § 降级到TF-IDF"""
    with capture_logs() as logs:
        async with service_of(FakeRegistry(first=FakeModel(open_error=RuntimeError("no weights")))) as service:
            found = await service.embed_request(query("提交代码", sparse=True))
    assert found.dense is None
    assert found.model is None
    assert found.degraded == "no weights"
    assert found.sparse is not None
    assert {"提交", "代码"} <= set(found.sparse[0].terms)
    warned = {line["event"]: line["log_level"] for line in logs}
    assert warned["embedding_model_unavailable"] == warned["embedding_degraded"] == "warning"


async def test_a_model_that_could_not_be_opened_is_tried_again_after_half_a_minute() -> None:
    registry = FakeRegistry(first=FakeModel(open_error=ModelFilesBrokenError(Path("weights.npz"), "cut short")))
    time = [0.0]
    async with ModelPool(registry.make, VectorCache(), queued=10, clock=lambda: time[0]) as pool:
        service = EmbeddingService(registry, pool, LexicalEncoder())
        for time[0] in (0.0, 29.0):
            assert "weights.npz" in ((await service.embed_request(query("text", sparse=True))).degraded or "")
        registry.models["first"] = FakeModel()
        time[0] = 31.0
        assert (await service.embed_request(query("text", sparse=True))).degraded is None
    assert registry.made == ["first", "first"]


async def test_a_request_for_dense_vectors_alone_fails_without_a_model() -> None:
    async with service_of(FakeRegistry(first=FakeModel(open_error=RuntimeError("broken")))) as service:
        with pytest.raises(ModelUnavailableError, match="broken"):
            await service.embed_request(query("text"))


async def test_the_next_model_answers_for_one_that_cannot_be_had_and_the_reply_says_so() -> None:
    """knowledge-base.md § 降级到本地模型"""
    down, broken, local = FakeModel(), FakeModel(open_error=ModelFilesBrokenError(Path("w.npz"), "cut")), FakeModel()
    down.gone = ModelUnavailableError("openai", "does not answer")
    async with service_of(FakeRegistry(down=down, broken=broken, local=local)) as service:
        found = await service.embed_request(query("text"))
    assert found.model is not None
    assert found.model.model.name == "local"
    assert [(one.name, "answer" in one.reason or "w.npz" in one.reason) for one in found.skipped] == [
        ("down", True),
        ("broken", True),
    ]
    assert found.dense is not None
    assert np.array_equal(found.dense[0], vector_of("text"))


async def test_words_come_in_time_when_the_model_keeps_silent() -> None:
    model = FakeModel()
    async with service_of(FakeRegistry(first=model)) as service:
        await service.embed_request(query("other"))
        model.hold()
        found = await service.embed_request(query("text", sparse=True), within_s=0.1)
        assert found.sparse is not None
        assert (found.dense, [one.name for one in found.skipped]) == (None, ["first"])
        model.release_all()
        assert (await service.embed_request(query("text", sparse=True))).dense is not None


async def test_nobody_is_worked_for_who_waits_no_longer() -> None:
    silent = FakeModel()
    silent.hold()
    async with service_of(FakeRegistry(first=silent)) as service:
        with pytest.raises(ModelUnavailableError, match="deadline"):
            await service.embed_request(query("text"), within_s=0.05)


async def test_the_next_model_gets_its_time_when_the_first_keeps_silent() -> None:
    silent = FakeModel()
    silent.hold()
    async with service_of(FakeRegistry(first=silent, second=FakeModel())) as service:
        found = await service.embed_request(query("text"), within_s=1.0)
    assert found.model is not None
    assert (found.model.model.name, [one.name for one in found.skipped]) == ("second", ["first"])


async def test_a_model_that_is_named_is_not_replaced_by_another() -> None:
    down, other = FakeModel(), FakeModel()
    down.gone = ModelUnavailableError("openai", "does not answer")
    registry = FakeRegistry(down=down, other=other)
    fingerprint = registry.now.models[0].model.fingerprint
    async with service_of(registry) as service:
        for name in ("down", "local/down", fingerprint):
            found = await service.embed_request(query("text", sparse=True, model=name))
            assert (found.dense, found.model) == (None, None)
            with pytest.raises(ModelUnavailableError):
                await service.embed_request(query("text", model=name))
    assert other.batches == []


async def test_a_name_that_nobody_has_is_an_error_and_a_fingerprint_that_nobody_has_leaves_the_words() -> None:
    async with service_of(FakeRegistry(first=FakeModel())) as service:
        with pytest.raises(ModelUnknownError, match="list_models"):
            await service.embed_request(query("text", sparse=True, model="unheard-of"))
        found = await service.embed_request(query("text", sparse=True, model="0" * 12))
    assert (found.dense, found.degraded is None) == (None, False)


async def test_the_next_call_uses_the_model_that_became_the_default() -> None:
    """skill-vector-retrieval.md § 运行时切换Embedding模型"""
    registry = FakeRegistry(first=FakeModel(), second=FakeModel())
    async with service_of(registry) as service:
        before = await service.embed_request(query("text"))
        registry.now = FakeRegistry.of(registered_model("second", is_default=True), registered_model("first"))
        after = await service.embed_request(query("text"))
        await service.check_default()
        old = await service.embed_request(query("text", model="first"))
    assert [found.model.model.name for found in (before, after, old) if found.model] == ["first", "second", "first"]
    assert registry.made == ["first", "second"]


async def test_a_model_that_was_changed_answers_what_it_was_asked_before_it_is_closed() -> None:
    model = FakeModel()
    registry = FakeRegistry(first=model)
    async with service_of(registry) as service:
        await service.embed_request(query("warm"))
        model.hold()
        running = asyncio.create_task(service.embed_request(query("text")))
        await model.entered.acquire()
        await model.entered.acquire()
        registry.models["first"] = changed = FakeModel()
        registry.now = FakeRegistry.of(registered_model("first", is_default=True, api_path="/other"))
        await service.check_default()
        assert (await service.embed_request(query("other"))).dense is not None
        model.release_all()
        assert (await running).dense is not None
    assert changed.batches == [["other"]]
    assert model.closed


async def test_a_full_queue_is_the_callers_to_know_and_no_reason_for_another_model() -> None:
    full, other = FakeModel(), FakeModel()
    async with service_of(FakeRegistry(full=full, other=other), queued=2) as service:
        with pytest.raises(OverloadedError):
            await service.embed_request(query("a", "b", "c"))
    assert other.batches == []


async def test_who_waits_for_the_model_is_answered_when_the_embedder_closes() -> None:
    model = FakeModel()
    model.hold()
    async with service_of(FakeRegistry(first=model)) as service:
        call = asyncio.create_task(service.embed_request(query("text")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises((EmbedderClosedError, ModelUnavailableError)):
        await call


async def test_without_any_model_only_words_remain() -> None:
    registry = FakeRegistry()
    async with service_of(registry) as service:
        found = await service.embed_request(query("text", sparse=True))
        assert await service.check_default() == ("", found.degraded)
