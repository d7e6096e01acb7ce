"""ONNX models: tiny ones whose vectors are known, and all-MiniLM-L6-v2 for real."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.models import LocalModels, LocalSettings
from skillbus.embedder.adapters.local.onnx.files import OnnxFiles
from skillbus.embedder.adapters.local.onnx.model import OnnxModel
from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError
from skillbus.embedder.domain.model import AsyncModel, check_rows
from skillbus.relevance.text_normalization import normalise_text

from .local_records import LOCAL, record, tiny_model

HOSTILE = [
    "",
    "\x00",
    "a\x00b",
    "\ud800",
    "\ufdfa" * 50,
    "x" * 10_000_000,
    "👩‍👩‍👧‍👦🏳️‍🌈" * 9,
    "a" + "\u0301\u0316" * 9999,
]
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 90261504\n"


def tiny(folder: Path, **fields: object) -> AsyncModel:
    models = LocalModels(LocalSettings(folder.parent))
    return models.build_model(LOCAL, record("tiny", path=folder.name, **{"dimensions": 3} | fields))


async def rows_of(model: AsyncModel, *texts: str, role: TextRole = TextRole.DOCUMENT) -> np.ndarray:
    await model.open()
    try:
        return (await model.embed([normalise_text(text, model.spec.max_chars) for text in texts], role)).rows
    finally:
        await model.close()


async def test_the_vectors_of_the_tokens_are_averaged_without_those_of_padding(tmp_path: Path) -> None:
    rows = await rows_of(tiny(tiny_model(tmp_path / "tiny")), "git commit", "git", "commit commit commit git")
    expected = np.array([[3, 4, 2], [3, 4, 0], [3, 4, 6]], np.float32)
    assert np.allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True))


@pytest.mark.parametrize(
    "asked", [{"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, {"pooling_mode": "cls"}]
)
async def test_the_first_token_is_taken_where_the_model_asks_for_that(tmp_path: Path, asked: dict[str, object]) -> None:
    folder = tiny_model(tmp_path / "tiny")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 3, **asked}))
    assert np.allclose(await rows_of(tiny(folder), "git commit commit"), [[0.6, 0.8, 0]])


async def test_a_pooling_that_is_not_computed_here_is_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(ModelUnavailableError, match="max_tokens"):
        await rows_of(tiny(folder), "git")


async def test_a_graph_that_pools_is_taken_at_its_word(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny", inputs=("input_ids",), pooled=True)
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Dense"}]))
    assert np.allclose(await rows_of(tiny(folder), "git file"), np.array([[3, 9, 0]]) / np.sqrt(90))


async def test_a_graph_that_lacks_a_layer_of_its_model_is_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny")
    layers = [{"type": f"sentence_transformers.models.{kind}"} for kind in ("Transformer", "Pooling", "Dense")]
    (folder / "modules.json").write_text(json.dumps(layers))
    with pytest.raises(ModelUnavailableError, match="Dense"):
        await rows_of(tiny(folder), "git")


async def test_an_input_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny", inputs=("input_ids", "pixel_values"))
    with pytest.raises(ModelUnavailableError, match="pixel_values"):
        await rows_of(tiny(folder), "git")


async def test_a_text_is_cut_at_the_length_that_the_model_names(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 1}))
    assert np.allclose(await rows_of(tiny(folder), "git commit commit"), [[0.6, 0.8, 0]])


async def test_queries_and_documents_stand_behind_the_prefixes_of_the_record(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny")
    model = tiny(folder, query_prefix="commit ", document_prefix="git ")
    assert np.allclose(await rows_of(model, "git", role=TextRole.QUERY), [np.array([3, 4, 2]) / np.sqrt(29)])
    model = tiny(folder, query_prefix="commit ", document_prefix="git ")
    assert np.allclose(await rows_of(model, "git", role=TextRole.DOCUMENT), [[0.6, 0.8, 0]])


async def test_a_text_without_any_token_has_a_vector(tmp_path: Path) -> None:
    check_rows(await rows_of(tiny(tiny_model(tmp_path / "tiny")), "", " "), 2, 3)


async def test_a_model_of_other_dimensions_than_registered_is_an_error_that_names_its_file(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny")
    with pytest.raises(ModelFilesBrokenError, match="3 dimensions, and 384") as error:
        await rows_of(tiny(folder, dimensions=384), "git")
    assert error.value.path == folder / "model.onnx"


async def test_a_model_whose_dimensions_nobody_registered_shows_them(tmp_path: Path) -> None:
    model = tiny(tiny_model(tmp_path / "tiny"), dimensions=None)
    assert model.spec.dim == 0
    assert (await rows_of(model, "git")).shape == (1, 3)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.onnx", None),
        ("model.onnx", b""),
        ("model.onnx", LFS_POINTER),
        ("model.onnx_data", LFS_POINTER),
        ("tokenizer.json", b"{"),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", LFS_POINTER),
        ("config.json", b"<html>"),
        ("modules.json", b"{}"),
        ("sentence_bert_config.json", b"[]"),
    ],
)
async def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, name: str, content: bytes | None) -> None:
    folder = tiny_model(tmp_path / "tiny")
    broken = folder / name
    broken.write_bytes(broken.read_bytes()[:-40] if content is None else content)
    with pytest.raises(ModelFilesBrokenError) as error:
        await rows_of(tiny(folder), "git")
    assert error.value.path == broken
    assert str(broken) in str(error.value)


async def test_without_its_packages_an_onnx_model_says_which_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("onnxruntime", "tokenizers"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, package, None)
            with pytest.raises(ModelUnavailableError, match=r"skillbus-embedder\[onnx\]"):
                await rows_of(tiny(tiny_model(tmp_path / package / "tiny")), "git")


@pytest.fixture(scope="module")
def minilm() -> OnnxModel:
    spec = LocalModels(LocalSettings(Path("models"))).build_spec(LOCAL, record("all-MiniLM-L6-v2"))
    assert spec is not None
    model = OnnxModel(spec, OnnxFiles.locate_minilm())
    model.load()
    return model


def minilm_rows(model: OnnxModel, *texts: str) -> np.ndarray:
    return model.embed([normalise_text(text, model.spec.max_chars) for text in texts], TextRole.DOCUMENT)


@pytest.mark.spec("skill-vector-retrieval.md § 生成Skills向量")
def test_a_skill_gets_a_vector_of_384_numbers_and_the_same_one_each_time(minilm: OnnxModel) -> None:
    """skill-vector-retrieval.md § 生成Skills向量."""
    skill = "git-commit\n自动分析Git改动并生成conventional commit信息\ngit commit versioning"
    rows = minilm_rows(minilm, skill)
    assert rows.shape == (1, 384)
    assert np.all(rows != 0)
    assert np.array_equal(rows, minilm_rows(minilm, skill))


def test_minilm_knows_what_english_means(minilm: OnnxModel) -> None:
    skill, near, far = minilm_rows(minilm, "commit changes to git", "version control", "play a song")
    assert skill @ near > skill @ far + 0.1


def test_minilm_gives_a_text_the_same_vector_alone_and_in_a_batch(minilm: OnnxModel) -> None:
    texts = [f"工具 {n} reads file number {n}" + " and more" * n for n in range(12)]
    alone = np.concatenate([minilm_rows(minilm, text) for text in texts])
    assert np.allclose(minilm_rows(minilm, *texts), alone, atol=1e-5)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_minilm_gives_hostile_texts_unit_vectors(minilm: OnnxModel, text: str) -> None:
    check_rows(minilm_rows(minilm, text), 1, 384)


@pytest.mark.spec("skill-vector-retrieval.md § 本地Embedding模型加载和缓存")
def test_minilm_answers_a_short_text_in_less_than_100_ms_once_it_is_loaded(minilm: OnnxModel) -> None:
    """skill-vector-retrieval.md § 本地Embedding模型加载和缓存: the second call."""
    minilm_rows(minilm, "Git提交")
    started = time.process_time()
    assert minilm_rows(minilm, "Git提交").shape == (1, 384)
    assert time.process_time() - started < 0.1
