"""The embedder's one entry, on a model that a test holds and releases."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from skillbus.contracts.embedder import Role
from skillbus.embedder.domain.embedding import EmbeddingService
from skillbus.embedder.domain.errors import EmbedderClosedError, ModelUnavailableError
from skillbus.embedder.domain.lanes import LaneLimits, Priority
from skillbus.embedder.domain.lexical import LexicalEncoder

from .fakes import SPEC, WAIT_S, FakeModel


@asynccontextmanager
async def service_of(model: FakeModel) -> AsyncIterator[EmbeddingService]:
    async with (
        asyncio.timeout(WAIT_S),
        EmbeddingService(model, LaneLimits(batch_tokens=1000), LexicalEncoder()) as service,
    ):
        try:
            yield service
        finally:
            model.release_all()


async def test_dense_and_sparse_vectors_come_in_one_answer() -> None:
    async with service_of(FakeModel()) as service:
        found = await service.embed(["读取文件", "git"], Role.DOCUMENT, Priority.BULK, want_sparse=True)
    assert found.dense is not None
    assert found.dense.shape == (2, SPEC.dim)
    assert found.sparse is not None
    assert found.sparse[1].terms == ("git",)
    assert (found.model, found.degraded) == (SPEC, None)


async def test_sparse_vectors_alone_do_not_wait_for_the_model() -> None:
    model = FakeModel()
    model.hold()
    async with service_of(model) as service:
        found = await service.embed(["git"], Role.QUERY, Priority.QUERY, want_dense=False, want_sparse=True)
    assert (found.dense, found.model, found.degraded) == (None, None, None)
    assert found.sparse is not None


async def test_long_texts_are_encoded_alike_in_a_thread() -> None:
    async with service_of(FakeModel()) as service:
        found = await service.embed(["git " * 2000], Role.QUERY, Priority.QUERY, want_dense=False, want_sparse=True)
    assert found.sparse is not None
    assert found.sparse[0].terms == ("git",)


async def test_callers_wait_while_the_model_loads() -> None:
    model = FakeModel()
    model.hold()
    async with service_of(model) as service:
        call = asyncio.create_task(service.embed(["text"], Role.QUERY, Priority.QUERY))
        await asyncio.sleep(0)
        assert not call.done()
        model.release_all()
        assert (await call).degraded is None


async def test_a_caller_with_no_time_left_gets_the_sparse_vectors_while_the_model_loads() -> None:
    model = FakeModel()
    model.hold()
    async with service_of(model) as service:
        found = await service.embed(["git"], Role.QUERY, Priority.QUERY, want_sparse=True, load_wait_s=0)
    assert found.dense is None
    assert "still loading" in (found.degraded or "")


async def test_a_model_that_fails_to_load_is_warned_of_and_leaves_the_sparse_vectors() -> None:
    """skill-vector-retrieval.md § 嵌入模型加载失败."""
    with capture_logs() as logs:
        async with service_of(FakeModel(load_error=ModelUnavailableError("no weights"))) as service:
            found = await service.embed(["提交代码"], Role.QUERY, Priority.QUERY, want_sparse=True)
    assert found.dense is None
    assert found.model is None
    assert found.degraded == "no weights"
    assert found.sparse is not None
    assert {"提交", "代码"} <= set(found.sparse[0].terms)
    warning = next(line for line in logs if line["event"] == "embedding_model_unavailable")
    assert (warning["log_level"], warning["degraded"]) == ("warning", "lexical")


async def test_a_request_for_dense_vectors_alone_fails_without_a_model() -> None:
    async with service_of(FakeModel(load_error=RuntimeError("broken"))) as service:
        with pytest.raises(ModelUnavailableError):
            await service.embed(["text"], Role.QUERY, Priority.QUERY)


async def test_who_waits_for_the_model_is_answered_when_the_embedder_closes() -> None:
    model = FakeModel()
    model.hold()
    service = EmbeddingService(model, LaneLimits(batch_tokens=1000), LexicalEncoder())
    async with asyncio.timeout(WAIT_S), service:
        call = asyncio.create_task(service.embed(["text"], Role.QUERY, Priority.QUERY))
        await asyncio.sleep(0)
    model.release_all()
    with pytest.raises((EmbedderClosedError, ModelUnavailableError)):
        await call
