"""Workers of `skillbus up --workers` as processes: their start, their end, and what they leave."""

import os
import signal
from pathlib import Path

import httpx
import pytest

from skillbus.common.runner import StartError
from skillbus.common.testing import eventually
from skillbus.standalone.workers.pool import Worker

from .conftest import WAIT_S, Up, read_headers
from .test_process import alive, argv, descendants

pytestmark = pytest.mark.timeout(180)


def _find_workers(pid: int) -> set[int]:
    return {child for child in descendants(pid) if "skillbus.standalone.workers" in argv(child)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_workers_too_and_leaves_no_copy(
    up: Up, http: httpx.AsyncClient, tmp_path: Path, number: signal.Signals
) -> None:
    started = await up(None, "--workers", "2")
    url = (await started.document())["http_url"]
    below = descendants(started.pid)
    assert len(_find_workers(started.pid)) == 1
    assert (await http.get(f"{url}/readyz")).status_code == 200
    assert list((tmp_path / "data" / "workers").iterdir()) == [tmp_path / "data" / "workers" / "1"]
    started.process.send_signal(number)
    assert await started.ended(WAIT_S) == 0
    assert await alive(below) == set()
    assert not list((tmp_path / "data").glob("workers/*"))
    assert "Traceback" not in started.errors()


async def test_workers_end_when_the_main_process_is_killed(up: Up, http: httpx.AsyncClient) -> None:
    started = await up(None, "--workers", "2")
    url = (await started.document())["http_url"]
    below = _find_workers(started.pid)
    assert await started.stop(signal.SIGKILL) == -signal.SIGKILL
    assert await eventually(lambda: alive(below), lambda left: not left, WAIT_S) == set()
    with pytest.raises(httpx.ConnectError):
        await http.get(f"{url}/healthz")


async def test_a_worker_that_hangs_is_killed_and_started_again(up: Up, http: httpx.AsyncClient, tmp_path: Path) -> None:
    started = await up(None, "--workers", "2")
    url = (await started.document())["http_url"]
    http.headers.update(read_headers(tmp_path / "data"))
    (stopped,) = _find_workers(started.pid)
    os.kill(stopped, signal.SIGSTOP)

    async def find_others() -> set[int]:
        return _find_workers(started.pid) - {stopped}

    assert await eventually(find_others, bool, WAIT_S)

    async def read_workers() -> str:
        services = (await http.get(f"{url}/api/status")).json()["services"]
        return str(next(one["detail"] for one in services if one["name"] == "workers"))

    assert await eventually(read_workers, lambda detail: detail.startswith("2 of 2"), WAIT_S)
    assert '"worker_hangs"' in started.errors()
    assert await started.stop() == 0


async def test_a_worker_that_ends_before_it_is_ready_stops_the_start() -> None:
    with pytest.raises(StartError, match=r"worker 1 ended with code .* before it was ready"):
        await Worker(1, "this").supervise()
