"""Providers under the batcher: texts in a request, requests at once, and who pays for a bad text."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.embedder.adapters.http.model import build_http_spec
from skillbus.embedder.domain.errors import ModelUnavailableError, TextNotEmbeddableError
from skillbus.embedder.domain.inference.batcher import Batcher, VectorCache
from skillbus.embedder.domain.model import AsyncModel

from .conftest import OpenModel, a_model, registered
from .fake_provider import WAIT_S, FakeProvider, Reply, unit


@asynccontextmanager
async def batching(model: AsyncModel) -> AsyncGenerator[Batcher]:
    async with Batcher(model, VectorCache()) as batcher:
        yield batcher


async def test_dashscope_gets_ten_texts_a_request_and_several_requests_at_once(
    provider: FakeProvider, opened: OpenModel
) -> None:
    texts = [f"命令 {number}" for number in range(25)]
    provider.hold()
    async with batching(await opened(ProviderKind.DASHSCOPE, max_concurrency=4)) as batcher:
        embedding = asyncio.create_task(batcher.embed_texts(texts, TextRole.DOCUMENT))
        for _ in range(3):
            await provider.arrival()
        assert provider.at_once == 3
        provider.release()
        made = await asyncio.wait_for(embedding, WAIT_S)
    assert sorted(len(seen.texts) for seen in provider.seen) == [5, 10, 10]
    np.testing.assert_allclose(made.rows, [unit(text) for text in texts], atol=1e-6)


async def test_a_text_that_is_refused_fails_alone(provider: FakeProvider, opened: OpenModel) -> None:
    provider.refused = frozenset({"bad"})
    texts = [f"good {number}" for number in range(15)]
    async with batching(await opened()) as batcher:
        calls = [batcher.embed_texts([text], TextRole.DOCUMENT) for text in [*texts, "bad"]]
        *good, bad = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), WAIT_S)
    assert isinstance(bad, TextNotEmbeddableError)
    assert not any(isinstance(made, BaseException) for made in good)
    assert len(provider.seen) <= 1 + 2 * 4  # 2·log2(16), and a first batch of one


async def test_a_provider_that_is_down_is_not_asked_for_each_text(provider: FakeProvider, opened: OpenModel) -> None:
    provider.always = Reply(503)
    async with batching(await opened()) as batcher:
        with pytest.raises(ModelUnavailableError, match="answered 503"):
            await batcher.embed_texts([str(number) for number in range(64)], TextRole.DOCUMENT)
    assert len(provider.seen) == 3


@pytest.mark.parametrize(
    ("kind", "given", "dimensions", "texts"),
    [
        (ProviderKind.OPENAI, None, 256, 2048),
        (ProviderKind.OPENAI, None, 1536, 341),  # 16 MiB of numbers of 32 bytes
        (ProviderKind.OPENAI, 2048, 1536, 1365),  # 64 MiB of them
        (ProviderKind.OPENAI, 16, 3072, 16),
        (ProviderKind.OPENAI, 2048, 65_536, 32),
        (ProviderKind.OLLAMA, None, 768, 64),
        (ProviderKind.DASHSCOPE, None, 1024, 10),
        (ProviderKind.DASHSCOPE, 25, 1024, 25),
    ],
)
def test_a_batch_is_what_the_kind_takes_and_what_is_read_of_a_reply(
    kind: ProviderKind, given: int | None, dimensions: int, texts: int
) -> None:
    spec = build_http_spec(
        registered(None, kind, max_batch_texts=given, max_concurrency=7), a_model(dimensions=dimensions)
    )
    assert spec.batch_texts == texts
    assert spec.slots == 7


def test_a_text_is_cut_where_the_model_says_or_else_the_kind() -> None:
    provider = registered(None)
    default, own = (build_http_spec(provider, a_model(max_chars=given)) for given in (None, 24_000))
    assert (default.max_chars, own.max_chars) == (6_000, 24_000)


def test_a_model_of_unknown_dimensions_has_a_spec_of_none() -> None:
    assert build_http_spec(registered(None), a_model(dimensions=None)).dim == 0
