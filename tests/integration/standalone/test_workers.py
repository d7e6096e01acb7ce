"""Workers of `skillbus up --workers` as processes: their start, their end, and what they leave."""

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest

from skillbus.common.runner import StartError
from skillbus.common.testing import eventually
from skillbus.standalone.workers.pool import REPORT_READY, Worker

from .conftest import WAIT_S, Up
from .test_process import alive, argv, descendants

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.timeout(180)


def _find_workers(pid: int) -> set[int]:
    return {child for child in descendants(pid) if "skillbus.standalone.workers" in argv(child)}


async def test_a_signal_ends_the_workers_too_and_leaves_no_copy(
    up: Up, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    started = await up(None, "--workers", "2")
    url = (await started.document())["http_url"]
    below = descendants(started.pid)
    assert len(_find_workers(started.pid)) == 1
    assert (await http.get(f"{url}/readyz")).status_code == 200
    assert list((tmp_path / "data" / "workers").iterdir()) == [tmp_path / "data" / "workers" / "1"]
    started.process.send_signal(signal.SIGTERM)
    assert await started.ended(WAIT_S) == 0
    assert await alive(below) == set()
    assert not list((tmp_path / "data").glob("workers/*"))
    assert "Traceback" not in started.errors()


async def test_workers_end_when_the_main_process_is_killed(up: Up, http: httpx.AsyncClient) -> None:
    started = await up(None, "--workers", "2")
    url = (await started.document())["http_url"]
    below = _find_workers(started.pid)
    started.process.send_signal(signal.SIGKILL)
    assert await started.ended(WAIT_S) == -signal.SIGKILL  # its output ends with that of the workers
    assert await eventually(lambda: alive(below), lambda left: not left, WAIT_S) == set()
    with pytest.raises(httpx.ConnectError):
        await http.get(f"{url}/healthz")


async def test_a_worker_that_hangs_is_killed_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    worker = Worker(1, "tests.integration.standalone.stub_worker", ping_every_s=0.05, hangs_s=0.5)
    started = asyncio.Queue[int]()

    async def note_ready(pid: int) -> None:
        await worker.note_ready(pid)
        started.put_nowait(pid)

    worker.handlers = {REPORT_READY: note_ready}
    supervising = asyncio.create_task(worker.supervise())
    async with asyncio.timeout(WAIT_S):
        first = await started.get()
        os.kill(first, signal.SIGSTOP)
        second = await started.get()
    assert first != second
    assert await alive({first}) == set()
    assert await alive({second}) == {second}
    await worker.stop()
    await supervising


async def test_a_worker_that_ends_before_it_is_ready_stops_the_start() -> None:
    with pytest.raises(StartError, match=r"worker 1 ended with code .* before it was ready"):
        await Worker(1, "this").supervise()
