"""Files that are sent over HTTP are learned from by the learner itself, and its progress and report come back."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from skillbus.client.skillbus_client import AsyncSkillbus
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.objects import open_object_store
from skillbus.contracts.learner.learning_jobs import LearningPhase, LearningStatus
from skillbus.contracts.resources import LEARNING_FILES
from skillbus.gateway.wiring import Gateway
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner

from ..learner.fake_services import open_fake_retriever
from .conftest import OWNER_KEY

LEARNER_TESTS = Path(__file__).parents[1] / "learner"


@pytest.fixture(autouse=True)
async def learner(bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[None]:
    monkeypatch.setenv("PYTHONPATH", str(LEARNER_TESTS))
    settings = LearnerSettings(data=tmp_path, wait_indexed_s=0)
    async with open_fake_retriever(bus), open_learner(bus, settings, "fake_extraction"):
        yield


async def test_the_client_sends_files_follows_their_job_and_reads_its_report(
    gateway: Gateway, http: httpx.AsyncClient, bus: Bus, tmp_path: Path
) -> None:
    (tmp_path / "b.log").write_text("x\n" * 100_000 + "b=2\n")
    files = {"a.log": b"a=1\n", "b.log": tmp_path / "b.log", "c.bin": b"bad"}
    async with AsyncSkillbus(gateway.url, OWNER_KEY) as skillbus:
        started = await skillbus.learn_from_logs(files, source="payments", task="t1", actor="lin")
        assert started.job is not None
        assert (started.job.source, started.job.task, started.job.actor) == ("payments", "t1", "lin")
        async with skillbus.follow_learning_job(started.job.id) as states:
            last = [job async for job in states][-1]
        assert (last.status, last.new_items, last.progress.phase) == (LearningStatus.DONE, 2, LearningPhase.ENDED)
        report = await skillbus.get_learning_report(id=last.id, limit=3)
        assert [(file.path, file.error) for file in report.files] == [
            ("a.log", None),
            ("b.log", None),
            ("c.bin", "is not a log"),
        ]
        assert report.next == 3
        again = await skillbus.learn_from_logs(files, source="payments")
        assert (again.repeated, again.job) == (True, last)
        assert (await skillbus.list_learning_jobs(source="payments")).jobs == (last,)
        switch = await skillbus.set_learning_source(source="payments", enabled=False)
        assert (await skillbus.list_learning_sources()).sources == (switch,)
        skipped = await skillbus.learn_from_tests({"d": b"d=1\n"}, source="payments")
        assert (skipped.job, skipped.skipped) == (None, "learning from the source 'payments' is switched off")
    pending = await http.get("/api/knowledge", params={"status": "pending", "source": "log_learning"})
    assert {item["title"] for item in pending.json()["items"]} == {"a=1", "b=2"}
    assert await (await open_object_store(bus, LEARNING_FILES)).names() == []


async def test_a_job_is_cancelled_over_http_while_it_is_followed(http: httpx.AsyncClient) -> None:
    started = await http.post("/api/learn/files", files={"file": ("a.log", b"hold")})
    path = f"/api/learn/jobs/{started.json()['job']['id']}"
    told = []
    async with http.stream("GET", f"{path}/events") as events:
        async for line in events.aiter_lines():
            if line.startswith("data: "):
                told.append(json.loads(line.removeprefix("data: ")))
                if told[-1]["status"] == "running" and told[-1]["progress"]["bytes_done"] == 1:
                    await http.delete(path)
    assert told[-1]["status"] == "cancelled"
    assert (await http.get(path)).json()["status"] == "cancelled"
