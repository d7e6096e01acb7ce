"""`skillbus models calibrate` against a server whose model is a table of vectors."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from skillbus.calibration.bm25 import build_search_encoder
from skillbus.calibration.fit import fit_calibration
from skillbus.calibration.judged import Judged, JudgedQuery
from skillbus.calibration.pairs import build_survey
from skillbus.calibration.vectors import JudgedVectors, Rows, build_vectors, list_query_texts
from skillbus.cli.__main__ import create_app
from skillbus.cli.models.calibration import BATCH_TEXTS
from skillbus.cli.server.launcher import Externals
from skillbus.contracts.embedder.registry import Calibration

from .synthetic import judged, vectors, write_lines

WHEN = "2026-01-01T00:00:00Z"
RECORD: dict[str, object] = {
    "id": "0" * 32,
    "provider": "local",
    "name": "of/mine",
    "is_default": False,
    "fingerprint": "f",
    "version": 1,
    "created_at": WHEN,
    "updated_at": WHEN,
}


@dataclass
class FakeServer:
    """Has one model, which knows the texts of `data`."""

    data: Judged
    made: JudgedVectors
    record: dict[str, object] = field(default_factory=lambda: dict(RECORD))
    embeds: httpx.Response | None = None
    """The answer to every request for vectors, if it is to be another."""
    batches: list[tuple[str, str, int]] = field(default_factory=list)
    """Model, role and number of texts of each request for vectors."""
    saved: list[object] = field(default_factory=list)
    touched: int = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.touched += 1
        path = unquote(request.url.path)
        body = json.loads(request.content) if request.content else {}
        if path == "/v1/embeddings":
            return self.embeds or self._embedded(body)
        if path.removeprefix("/api/embedding/models/") not in {"of/mine", "local/of/mine", RECORD["id"]}:
            missing = {"title": "Not found", "code": "not_found", "detail": "no model of that name is registered"}
            return httpx.Response(404, json=missing)
        if request.method == "PATCH":
            self.saved.append(body)
        return httpx.Response(200, json=self.record | body)

    def _embedded(self, body: dict[str, object]) -> httpx.Response:
        texts, role = body["input"], str(body["input_type"])
        assert isinstance(texts, list)
        assert body["encoding_format"] == "base64"
        begin = sum(count for _, known, count in self.batches if known == role)
        self.batches.append((str(body["model"]), role, len(texts)))
        asked = (
            [tool.dense_text for tool in self.data.tools]
            if role == "document"
            else list(list_query_texts(self.data).texts)
        )
        assert texts == asked[begin : begin + len(texts)]
        rows = (self.made.tools if role == "document" else self.made.asked)[begin : begin + len(texts)]
        return vectors_reply(rows)


def vectors_reply(rows: Rows) -> httpx.Response:
    encoded = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
    data = [{"object": "embedding", "index": index, "embedding": text} for index, text in enumerate(encoded)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return httpx.Response(200, json={"object": "list", "data": data, "model": "of/mine", "usage": usage})


@dataclass(frozen=True)
class Bench:
    """The command, its server and its files."""

    server: FakeServer
    folder: Path

    def __call__(self, *words: str, model: str = "of/mine") -> Result:
        files = ["--tools", str(self.folder / "tools.jsonl"), "--queries", str(self.folder / "queries.jsonl")]
        outside = Externals(transport=httpx.MockTransport(self.server.answer))
        return CliRunner().invoke(create_app(), ["models", "calibrate", model, *files, *words], obj=outside)

    def write(self, tools: Sequence[object] | None = None, queries: Sequence[object] | None = None) -> None:
        given = self.server.data
        write_lines(self.folder / "tools.jsonl", tools or [it.model_dump() for it in given.tools])
        write_lines(self.folder / "queries.jsonl", queries or [it.model_dump() for it in given.queries])


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for name in (
        "SKILLBUS_URL",
        "SKILLBUS_API_KEY",
        "SKILLBUS_OWNER_KEY",
        "FORCE_COLOR",
        "TTY_COMPATIBLE",
    ):
        monkeypatch.delenv(name, raising=False)
    data = judged(70, 140)
    made = Bench(FakeServer(data, vectors(data, signal=1.0)), tmp_path)
    made.write()
    return made


def test_the_numbers_that_are_fitted_are_saved_and_shown(bench: Bench) -> None:
    result = bench()
    assert result.exit_code == 0, result.output
    expected = fit_calibration(
        bench.server.data, build_survey(bench.server.data, bench.server.made, build_search_encoder())
    )
    assert len(bench.server.saved) == 1
    saved = bench.server.saved[0]
    assert isinstance(saved, dict)
    assert list(saved) == ["calibration"]
    slope = Calibration.model_validate(saved["calibration"]).slope
    assert slope == pytest.approx(expected.slope, rel=1e-3)
    for said in (f"slope {slope:.3f}", "score at cosine 0.2", "70 tools", "Saved"):
        assert said in result.stdout


def test_texts_are_embedded_by_that_model_alone_in_batches_each_in_its_role(bench: Bench) -> None:
    bench(model="local/of/mine")
    sizes = [BATCH_TEXTS, 70 - BATCH_TEXTS], [BATCH_TEXTS, BATCH_TEXTS, 140 - 2 * BATCH_TEXTS]
    roles = [("document", size) for size in sizes[0]] + [("query", size) for size in sizes[1]]
    assert bench.server.batches == [("local/of/mine", role, size) for role, size in roles]


def test_sentences_of_long_requests_are_embedded_in_their_place(bench: Bench) -> None:
    data = bench.server.data
    several = JudgedQuery(query="What is the weather in Paris? Convert two hundred euros into yen.", relevant=("t0",))
    more = replace(data, queries=(several, *data.queries[1:]))
    made = bench.server.made
    bench.server.made = replace(made, asked=np.concatenate([made.asked[:1], made.asked]))  # a row a text
    bench.server.data = more
    bench.write()
    result = bench()
    assert result.exit_code == 0, result.output
    assert sum(count for _, role, count in bench.server.batches if role == "query") == 141


def test_a_dry_run_saves_nothing_and_says_so(bench: Bench) -> None:
    result = bench("--dry-run")
    assert result.exit_code == 0, result.output
    assert bench.server.saved == []
    assert "Not saved" in result.stdout


def test_programs_get_the_numbers_and_what_both_maps_do(bench: Bench) -> None:
    bench.server.record["calibration"] = {"slope": 0.1, "lexical": 0.0, "offset": -3.0}
    document = json.loads(bench("--json").stdout)
    assert document["model"] == "local/of/mine"
    assert document["saved"] is True
    assert Calibration.model_validate(document["calibration"]).slope > 0
    assert document["before"]["calibration"]["slope"] == 0.1
    assert document["before"]["right_above_half"] == 0.0
    assert document["after"]["right_above_half"] > 0.5
    assert len(document["after"]["scores"]) == len(document["cosines"]) == 4


def test_the_map_until_now_is_the_neutral_one_if_nobody_fitted_the_model(bench: Bench) -> None:
    document = json.loads(bench("--json", "--dry-run").stdout)
    assert document["before"]["calibration"] is None
    assert document["before"]["scores"] == pytest.approx([0.2, 0.4, 0.6, 0.8])


@pytest.mark.parametrize("which", ["tools", "queries"])
def test_a_bad_line_is_named_before_the_server_is_asked_anything(bench: Bench, which: str) -> None:
    (bench.folder / f"{which}.jsonl").write_text('{"id": "a", "name": "a", "query": "a", "relevant": []}\n{"id": 1}\n')
    result = bench()
    assert result.exit_code == 1
    assert f"{which}.jsonl, line 2" in result.stderr
    assert bench.server.touched == 0


def test_too_few_requests_are_refused_before_the_server_is_asked_anything(bench: Bench) -> None:
    bench.write(queries=[it.model_dump() for it in bench.server.data.queries[:4]])
    result = bench("--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "cannot_calibrate"
    assert bench.server.touched == 0


def test_a_file_that_is_not_there_is_wrong_usage(bench: Bench) -> None:
    (bench.folder / "tools.jsonl").unlink()
    assert bench().exit_code == 2


def test_a_model_that_is_not_registered_is_refused_by_the_server(bench: Bench) -> None:
    result = bench("--json", model="unknown")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "not_found"
    assert bench.server.batches == []


def test_vectors_that_say_nothing_are_refused_and_nothing_is_saved(bench: Bench) -> None:
    data, random = bench.server.data, np.random.default_rng(1)
    tools, queries = (random.normal(size=(count, 8)).astype(np.float32) for count in (70, 140))
    bench.server.made = build_vectors(data, tools, queries)
    result = bench("--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "cannot_calibrate"
    assert (bench.server.saved, len(data.queries)) == ([], 140)


def test_an_error_in_the_form_of_openai_is_told_as_it_came(bench: Bench) -> None:
    error = {"message": "the model cannot be had", "type": "server_error", "param": None, "code": "model_unavailable"}
    bench.server.embeds = httpx.Response(503, json={"error": error})
    document = json.loads(bench("--json").stdout)["error"]
    assert (document["code"], document["detail"]) == ("model_unavailable", "the model cannot be had")
    assert bench.server.saved == []


@pytest.mark.parametrize(
    "rows",
    [np.ones((3, 4)), np.zeros((BATCH_TEXTS, 0)), np.full((BATCH_TEXTS, 4), np.nan)],
    ids=["few", "empty", "nan"],
)
def test_an_answer_that_holds_other_than_one_vector_a_text_is_an_error(bench: Bench, rows: Rows) -> None:
    small = judged(BATCH_TEXTS, BATCH_TEXTS)
    bench.server.data = small
    bench.write()
    bench.server.embeds = vectors_reply(rows)
    result = bench("--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] in {"strange_reply", "cannot_calibrate"}
    assert bench.server.saved == []
