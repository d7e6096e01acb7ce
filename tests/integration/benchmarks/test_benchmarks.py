"""Each benchmark runs from a clean checkout, at a tiny size, on generated data."""

import json
import runpy
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
TINY: Final = {
    "chat_models": ["--calls", "3", "--rounds", "1"],
    "code_mode": ["--rounds", "1", "--calls", "3"],
    "command_resolution": ["--count", "200", "--rounds", "8"],
    "context_packing": ["--rounds", "1", "--trained-on", "100"],
    "embedder_batching": ["--rounds", "1"],
    "embedder_on_the_bus": ["--rounds", "20", "--far-texts", "2"],
    "http_search": ["--count", "40", "--rounds", "3", "--checks", "100"],
    "knowledge_import": ["--count", "40", "--created", "3"],
    "knowledge_pages": ["--count", "40", "--rounds", "3"],
    "knowledge_search": ["--count", "40", "--rounds", "3"],
    "model_switch": ["--count", "40", "--searches", "10"],
    "request_lane": ["--requests", "200", "--rounds", "1"],
    "sandbox": ["--rounds", "1", "--runs", "16", "--turns", "1", "--wall-s", "1"],
    "tool_import": ["--count", "60"],
    "tool_search": ["--count", "60", "--rounds", "3"],
}
NOT_RUN_HERE: Final = {
    "chat_turns": "starts a whole system; tests/e2e chats with one",
    "chat_turns_beside_others": "starts a whole system, and downloads FastMCP",
    "command_line": "starts a whole system; tests/e2e runs the command",
    "install_size": "fills eight environments; tests/integration/distribution installs from the wheels",
    "learning_beside_mem0": "starts a whole system, and downloads mem0",
    "log_templates": "needs drain3, and logs that are not in the repository",
    "local_models": "loads every local model; tests/integration/embedder/local does so too",
    "standalone_footprint": "starts a whole system; tests/integration/standalone does so too",
    "tool_search_beside_others": "needs the dependency group `bench`",
}
FITTING: Final = [
    f"fitting/{name}" for name in ("fit_relevance", "fit_e5_centring", "knowledge_ranking", "ranking_quality")
]
LIBRARIES: Final = {
    "generator",
    "lancedb_table",
    "measuring",
    "qdrant_search",
    "reliability_plot",
    "tool_search_corpus",
}


def test_every_script_is_run_or_says_why_not() -> None:
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - LIBRARIES
    assert scripts == TINY.keys() | NOT_RUN_HERE.keys()


def run_script(name: str, *options: str) -> None:
    """Run a benchmark to its end, in this process: starting one for each takes longer than most of them."""
    script = ROOT / "benchmarks" / f"{name}.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(script), *options])
        patch.syspath_prepend(script.parent)
        runpy.run_path(str(script), run_name="__main__")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", TINY)
def test_a_benchmark_prints_and_saves_its_figures(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_script(name, *TINY[name], "--out", str(tmp_path))
    result = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert result["figures"]
    assert result["versions"]
    assert capsys.readouterr().out


@pytest.mark.parametrize("name", ["learning_beside_mem0", "local_models", "standalone_footprint", *FITTING])
def test_a_script_that_is_not_run_here_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_script(name, "--help")
    assert ended.value.code == 0
    assert f"benchmarks/{name}.py" in capsys.readouterr().out
