"""The embedder over the bus: with its default model, without one, and while it is being loaded."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.runner import StartError
from skillbus.common.testing import eventually
from skillbus.contracts.embedder import HEALTH
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbedTexts, TextRole, TextsEmbedded
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import JSON, MSGPACK, Empty
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import ModelSpec
from skillbus.embedder.wiring import open_embedder
from skillbus.standalone.nats_server import open_nats_server

from ...models import OnlyModel, embedder_in

module_loop = pytest.mark.asyncio(loop_scope="module")


class HeldModel:
    """A model that is loaded when a test says so, or never."""

    spec = ModelSpec("test", "held", "1", "none", 2, 2048, 4096, False)

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.go_on = threading.Event()

    def load(self) -> None:
        assert self.go_on.wait(5), "the test never let the model load"
        if self._error is not None:
            raise self._error

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        return np.tile(np.array([1.0, 0.0], np.float32), (len(texts), 1))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def default_model(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Bus]:
    """A bus with an embedder of the default model on it."""
    async with open_nats_server(tmp_path_factory.mktemp("nats")) as server:
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        data = embedder_in(tmp_path_factory.mktemp("data"))
        async with open_bus(settings, "test", CollectorRegistry()) as bus, open_embedder(bus, data):
            yield bus


async def _embed(bus: Bus, *texts: str, content_type: str = MSGPACK, **more: object) -> TextsEmbedded:
    request = EmbedTexts.model_validate({"texts": texts, **more})
    return await bus.caller.call(EMBED_TEXTS, request, content_type=content_type)


def _rows(embedded: TextsEmbedded) -> NDArray[np.float64]:
    assert embedded.dense is not None
    return np.array(embedded.dense.to_rows())


@pytest.mark.spec("skill-vector-retrieval.md § 生成Skills向量")
@module_loop
async def test_the_same_text_has_the_same_vector_of_length_1_each_time(default_model: Bus) -> None:
    """skill-vector-retrieval.md § 生成Skills向量"""
    text = "git-commit 自动分析Git改动并生成conventional commit信息 git commit versioning"
    first, second = await _embed(default_model, text), await _embed(default_model, text, "another")
    (row,) = _rows(first)
    assert first.model is not None
    assert row.shape == (first.model.dimensions,)
    assert np.linalg.norm(row) == pytest.approx(1.0, abs=1e-3)
    assert np.count_nonzero(row) == row.size
    assert np.array_equal(row, _rows(second)[0])


@pytest.mark.spec("skill-vector-retrieval.md § 中文Skills向量生成")
@module_loop
async def test_a_chinese_text_is_nearer_to_what_is_meant_than_to_something_else(default_model: Bus) -> None:
    """skill-vector-retrieval.md § 中文Skills向量生成, § 相似度计算验证"""
    rows = _rows(await _embed(default_model, "读取Excel文件并提取数据分析", "分析Excel表格", "播放一首歌"))
    near, far = rows[0] @ rows[1], rows[0] @ rows[2]
    assert near > 0.6
    assert far < 0.4
    assert rows[0] @ rows[0] == pytest.approx(1.0, abs=1e-3)


@module_loop
async def test_json_and_msgpack_carry_the_same_vectors(default_model: Bus) -> None:
    texts = ("帮我提交代码", "commit my code")
    plain = await _embed(default_model, *texts, content_type=JSON, sparse=True)
    packed = await _embed(default_model, *texts, sparse=True)
    assert np.allclose(_rows(plain), _rows(packed), atol=1e-6)
    assert plain.sparse is not None
    assert packed.sparse is not None
    assert [v.indices for v in plain.sparse] == [v.indices for v in packed.sparse]


@module_loop
async def test_a_hundred_texts_come_back_in_their_order(default_model: Bus) -> None:
    """skill-vector-retrieval.md § 批量文本Embedding生成优化"""
    texts = [f"工具 {number}: tool number {number}" for number in range(100)]
    rows = _rows(await _embed(default_model, *texts))
    assert rows.shape[0] == 100
    (alone,) = _rows(await _embed(default_model, texts[57]))
    assert int(np.argmax(rows @ alone)) == 57


@module_loop
async def test_vectors_of_another_model_are_not_had_and_the_reply_says_so(default_model: Bus) -> None:
    embedded = await _embed(default_model, "x", model="0" * 12, sparse=True)
    assert (embedded.dense, embedded.model) == (None, None)
    assert embedded.degraded is not None
    assert embedded.sparse is not None


@module_loop
async def test_callers_at_the_same_time_get_each_their_own(default_model: Bus) -> None:
    texts = [f"text {number}" for number in range(40)]
    alone = _rows(await _embed(default_model, *texts))
    together = await asyncio.gather(*(_embed(default_model, text, role="document") for text in texts))
    assert np.allclose(alone, np.stack([_rows(one)[0] for one in together]), atol=1e-5)


@module_loop
@pytest.mark.parametrize("texts", [(), ("x" * 32_769,), ("x",) * 513], ids=["none", "too-long", "too-many"])
async def test_what_is_over_the_bounds_is_refused(default_model: Bus, texts: tuple[str, ...]) -> None:
    request = EmbedTexts.model_construct(texts=texts)
    with pytest.raises(RequestError) as caught:
        await default_model.caller.call(EMBED_TEXTS, request)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


@module_loop
@pytest.mark.parametrize("text", ["", " ", "\0", "\ufffd" * 100, "🙂" * 3000, "a" * 32_768])
async def test_an_odd_text_is_embedded_and_the_next_one_is_well(default_model: Bus, text: str) -> None:
    rows = _rows(await _embed(default_model, text, sparse=True))
    assert np.linalg.norm(rows[0]) == pytest.approx(1.0, abs=1e-3)
    assert _rows(await _embed(default_model, "well")).shape[0] == 1


@module_loop
async def test_with_its_model_it_is_ready(default_model: Bus) -> None:
    health = await eventually(lambda: default_model.caller.call(HEALTH, Empty()), lambda it: it.ready)
    assert [check.name for check in health.checks] == ["model"]


async def test_a_model_that_is_being_loaded_holds_nobody_up(bus: Bus, tmp_path: Path) -> None:
    model = HeldModel()
    async with open_embedder(bus, embedder_in(tmp_path, load_wait_s=0.1), OnlyModel(model)):
        health = await bus.caller.call(HEALTH, Empty())
        while_loading = await _embed(bus, "天气", sparse=True)
        model.go_on.set()
        await eventually(lambda: bus.caller.call(HEALTH, Empty()), lambda it: it.ready)
        afterwards = await _embed(bus, "天气", sparse=True)
    assert (health.ready, "still loading" in health.checks[0].detail) == (False, True)
    assert (while_loading.dense, while_loading.sparse == afterwards.sparse) == (None, True)
    assert "still loading" in (while_loading.degraded or "")
    assert (afterwards.degraded, afterwards.model is not None) == (None, True)


async def test_a_request_waits_for_a_model_that_is_nearly_there(bus: Bus, tmp_path: Path) -> None:
    model = HeldModel()
    async with open_embedder(bus, embedder_in(tmp_path, load_wait_s=5), OnlyModel(model)):
        asking = asyncio.create_task(_embed(bus, "x"))
        asyncio.get_running_loop().call_later(0.1, model.go_on.set)
        async with asyncio.timeout(5):
            assert (await asking).dense is not None


async def test_without_a_model_words_remain_and_vectors_alone_are_refused(bus: Bus, tmp_path: Path) -> None:
    """knowledge-base.md § 降级到TF-IDF; skill-vector-retrieval.md § 嵌入模型加载失败"""
    model = HeldModel(ModelUnavailableError("its files are missing"))
    model.go_on.set()
    async with open_embedder(bus, embedder_in(tmp_path), OnlyModel(model)):
        degraded = await _embed(bus, "查询 weather", role="query", sparse=True)
        with pytest.raises(RequestError) as caught:
            await _embed(bus, "x")
        with pytest.raises(RequestError) as unknown:
            await _embed(bus, "x", model="000000000000")
        health = await bus.caller.call(HEALTH, Empty())
    assert (degraded.dense, degraded.model, degraded.degraded) == (None, None, "its files are missing")
    assert degraded.sparse is not None
    assert "weather" in degraded.sparse[0].terms
    assert caught.value.code == ErrorCode.MODEL_UNAVAILABLE
    assert unknown.value.code == ErrorCode.NOT_FOUND
    assert (health.ready, health.checks[0].detail) == (False, "its files are missing")


async def test_texts_over_the_queue_are_refused_as_overload(bus: Bus, tmp_path: Path) -> None:
    model = HeldModel()
    model.go_on.set()
    async with open_embedder(bus, embedder_in(tmp_path, queue_texts=4), OnlyModel(model)):
        with pytest.raises(RequestError) as caught:
            await _embed(bus, *(f"text {number}" for number in range(64)))
    assert (caught.value.code, caught.value.retryable) == (ErrorCode.OVERLOADED, True)


async def test_a_spoiled_registry_is_named_when_it_does_not_start(bus: Bus, tmp_path: Path) -> None:
    model = HeldModel()
    model.go_on.set()
    settings = embedder_in(tmp_path)
    async with open_embedder(bus, settings, OnlyModel(model)):
        pass
    with closing(sqlite3.connect(settings.data / "embedder.db")) as database, database:
        database.execute("UPDATE embedding_providers SET kind = 'telepathy'")
    with pytest.raises(StartError, match="Provider"):
        async with open_embedder(bus, settings, OnlyModel(model)):
            pass


async def test_words_come_before_the_deadline_when_the_model_keeps_silent(bus: Bus, tmp_path: Path) -> None:
    async with open_embedder(bus, embedder_in(tmp_path), OnlyModel(held := HeldModel())):
        request = EmbedTexts(texts=("weather",), role=TextRole.QUERY, sparse=True)
        answered = await bus.caller.call(EMBED_TEXTS, request, timeout_s=0.5)
        held.go_on.set()
    assert (answered.dense, answered.sparse is not None) == (None, True)
