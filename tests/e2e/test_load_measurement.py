"""`skillbus bench` on a running skillbus."""

import asyncio
import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from skillbus.cli.__main__ import create_app

from .conftest import System

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def bench(system: System, *words: str) -> Result:
    address = {"SKILLBUS_URL": str(system.http.base_url), "SKILLBUS_DATA": str(system.data)}
    with capture_logs():  # the server logs to the standard output of this process
        return await asyncio.to_thread(CliRunner().invoke, create_app(), ["bench", *words], env=address)


async def test_closed_and_open_loops_search_what_is_installed(system: System) -> None:
    loads = ("--connections", "2", "--rate", "20", "--duration", "0.5")
    result = await bench(system, "tools", *loads, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    closed, opened = report["phases"]
    assert (closed["loop"], closed["connections"], opened["loop"], opened["rate"]) == ("closed", 2, "open", 20)
    assert opened["answered"] == opened["sent"] == 10
    assert closed["answered"] > 2
    for phase in report["phases"]:
        assert (phase["failed"], phase["refused"]) == ({}, 0)
        values = [phase["answered_ms"][name] for name in ("p50", "p90", "p99", "p999", "max")]
        assert values == sorted(values)
        assert values[0] > 0


async def test_without_a_load_the_open_loop_has_half_of_the_best_throughput(system: System, tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    queries.write_text('{"query": "计算"}\n\n{"query": "what time is it", "relevant": []}\n', "utf-8")
    result = await bench(system, "tools", "--queries", str(queries), "--new", "--duration", "0.2", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["queries"], report["texts"]) == (2, "new")
    *closed, opened = report["phases"]
    assert [phase["connections"] for phase in closed] == [1, 16]
    assert opened["rate"] == pytest.approx(max(phase["answered_per_s"] for phase in closed) / 2, abs=0.1)


async def test_what_is_missing_is_said_before_any_load(system: System, tmp_path: Path) -> None:
    nothing = await bench(system, "knowledge")
    assert nothing.exit_code == 1
    assert "there are no knowledge items to make queries of" in nothing.output
    queries = tmp_path / "queries.jsonl"
    queries.write_text('{"query": "计算"}\n{"text": "x"}\n', "utf-8")
    wrong = await bench(system, "--queries", str(queries))
    assert wrong.exit_code != 0
    assert "line 2: no query" in wrong.output
