"""`skillbus learn`: files and folders are sent, the job is followed, its report is shown."""

import asyncio
import json
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from skillbus.cli.__main__ import create_app
from skillbus.cli.learn.local_files import collect_files
from skillbus.cli.server.launcher import Externals

from .conftest import CommandLine

Json = dict[str, object]
ID = "01890000-0000-7000-8000-000000000000"
ITEM: Json = {
    "kind": "rule",
    "type": "business_rule",
    "title": "game-id is required",
    "content": "POST /api/live/rooms needs the header game-id",
    "statement": {"subject": "POST /api/live/rooms", "predicate": "requires_header", "value": "game-id"},
    "rule": {"method": "POST", "path": "/api/live/rooms", "header": "game-id"},
    "evidence": [{"file": "logs/a.log", "line": 7, "quote": "400 missing game-id"}],
    "confidence": {"low": 0.7, "high": 0.95},
    "seen": 12,
}


def make_job(status: str = "running", **changed: object) -> Json:
    usual: Json = {"id": ID, "what": "files", "source": "default", "digest": "0" * 64, "status": status}
    return usual | {"created_at": "2026-01-01T00:00:00Z"} | changed


@dataclass
class FakeLearner:
    """Answers below /api/learn. A job that is followed ends with `ended`; the report comes in two pages."""

    started: Json = field(default_factory=lambda: {"job": make_job("queued")})
    ended: Json = field(default_factory=lambda: make_job("done", new_items=1))
    on_follow: Callable[[], None] | None = None
    requests: list[httpx.Request] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    async def answer(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        path = request.url.path.removeprefix("/api/learn")
        if path.endswith("/events"):
            return await self._follow()
        if request.method == "POST":
            self.names = [name.decode() for name in re.findall(rb'filename="([^"]+)"', request.content)]
            return httpx.Response(202, json=self.started)
        if request.method == "PUT":
            enabled = json.loads(request.content)["enabled"]
            return httpx.Response(200, json={"source": path.rpartition("/")[2], "enabled": enabled})
        document = {
            "/jobs": {"jobs": [self.ended]},
            "/sources": {"sources": [{"source": "payments", "enabled": False}]},
        }.get(path, {"id": ID, "cancelled": True} if request.method == "DELETE" else self.ended)
        return httpx.Response(200, json=self._report(request) if path.endswith("/report") else document)

    def _report(self, request: httpx.Request) -> Json:
        files = [{"path": "logs/a.log", "status": "read"}, {"path": "b", "status": "failed", "error": "is binary"}]
        page: Json = {"items": [ITEM]} if request.url.params["after"] == "2" else {"files": files, "next": 2}
        return {"job": self.ended, "model_use": {"model": "lab/small", "tokens": 400}, **page}

    async def _follow(self) -> httpx.Response:
        if self.on_follow is not None:
            self.on_follow()
            await asyncio.sleep(5)
        states = (("progress", make_job()), ("ended", self.ended))
        text = "".join(f"event: {name}\ndata: {json.dumps(job)}\n\n" for name, job in states)
        return httpx.Response(200, text=text, headers={"Content-Type": "text/event-stream"})


@pytest.fixture
def learner() -> FakeLearner:
    return FakeLearner()


@pytest.fixture
def learn(learner: FakeLearner, skillbus: CommandLine) -> Callable[..., Result]:
    del skillbus  # its fixture clears the environment

    def run(*words: object) -> Result:
        given = Externals(transport=httpx.MockTransport(learner.answer))
        return CliRunner().invoke(create_app(), ["learn", *map(str, words)], obj=given)

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    logs = tmp_path / "logs"
    (logs / "deep").mkdir(parents=True)
    (logs / "a.log").write_text("one\n")
    (logs / "deep" / "日志.log").write_text("two\n")
    (logs / "empty.log").touch()
    (logs / ".git").mkdir()
    (logs / ".git" / "config").write_text("x")
    return logs


def test_a_folder_is_sent_as_one_job_and_its_report_is_printed_as_json(
    learn: Callable[..., Result], learner: FakeLearner, folder: Path
) -> None:
    result = learn(folder, "--source", "payments", "--commit", "c1", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [(file["path"], file["error"]) for file in document["files"]] == [("logs/a.log", None), ("b", "is binary")]
    assert [(item["kind"], item["rule"]["header"], item["seen"]) for item in document["items"]] == [
        ("rule", "game-id", 12)
    ]
    assert document["model_use"]["tokens"] == 400
    sent = learner.requests[0]
    assert (sent.url.path, dict(sent.url.params)) == ("/api/learn/files", {"source": "payments", "commit": "c1"})
    assert learner.names == ["logs/a.log", "logs/deep/日志.log"]


def test_people_see_items_with_their_evidence_and_what_could_not_be_read(
    learn: Callable[..., Result], learner: FakeLearner, folder: Path
) -> None:
    learner.ended |= {"progress": {"phase": "ended"}}
    result = learn("--what", "logs", folder / "a.log", "--by", "lin")
    assert result.exit_code == 0, result.output
    assert "ended" not in result.output
    assert "logs/a.log:7: 400 missing game-id" in result.stdout
    assert "is binary" in result.stdout
    assert "1 of 2 files read: 1 new item, 0 known before." in result.stdout
    assert (learner.requests[0].url.path, learner.names) == ("/api/learn/logs", ["a.log"])
    assert learner.requests[0].headers["Skillbus-Actor"] == "lin"


def test_the_report_of_an_earlier_job_does_not_call_its_items_new(
    learn: Callable[..., Result], learner: FakeLearner, folder: Path
) -> None:
    learner.started |= {"repeated": True}
    result = learn(folder)
    assert result.exit_code == 0, result.output
    assert "learned from these files before" in result.output
    assert "Nothing new now. The job of 2026-01-01" in result.stdout
    assert "lists them for review" not in result.stdout


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"ended": make_job("failed", error="took too much memory")}, "took too much memory"),
        ({"started": {"job": None, "skipped": "the source 'x' is switched off"}}, "is switched off"),
    ],
)
def test_a_job_that_fails_or_is_not_started_exits_with_1(
    learn: Callable[..., Result], learner: FakeLearner, folder: Path, changed: Json, told: str
) -> None:
    learner.__dict__.update(changed)
    result = learn(folder)
    assert (result.exit_code, told in result.output) == (1, True), result.output


def test_ctrl_c_cancels_the_job(learn: Callable[..., Result], learner: FakeLearner, folder: Path) -> None:
    learner.on_follow = lambda: signal.raise_signal(signal.SIGINT)
    result = learn(folder)
    assert (result.exit_code, learner.requests[-1].method) == (1, "DELETE")
    assert "is cancelled" in result.output


def test_a_path_that_does_not_exist_or_has_no_file_is_refused(learn: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    for path in (tmp_path / "none.log", tmp_path / "nothing"):
        assert learn(path).exit_code == 1


def test_files_with_one_name_from_two_folders_are_both_sent(tmp_path: Path) -> None:
    files = [tmp_path / name / "a.log" for name in ("one", "two")]
    for file in files:
        file.parent.mkdir()
        file.write_text("x")
    assert collect_files(files) == {"a.log": files[0], files[1].as_posix(): files[1]}


def test_jobs_are_listed_shown_and_cancelled_and_sources_switched(
    learn: Callable[..., Result], learner: FakeLearner
) -> None:
    assert ID in learn("jobs", "--status", "done").stdout
    assert dict(learner.requests[-1].url.params) == {"limit": "20", "status": "done"}
    assert json.loads(learn("show", ID, "--json").stdout)["items"][0]["title"] == "game-id is required"
    assert "The job is cancelled." in learn("cancel", ID).stdout
    assert "payments" in learn("sources").stdout
    assert "payments: learning is off" in learn("sources", "payments", "--off").stdout
    assert learn("sources", "payments").exit_code == 2


def test_templates_and_runs_of_a_job_are_parts_of_its_report(
    learn: Callable[..., Result], learner: FakeLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = {"file": "a.log", "text": "pool <*> is full", "level": "error", "count": 30, "first_line": 1}
    run = {"run": "run1", "commit": "c1", "passed": 7, "failed": 1}
    test = {"test": "tests/test_a.py::test_b", "kind": "flaky", "outcomes": ["both"]}
    report: Json = {
        "job": make_job("done"),
        "templates": [template],
        "suites": [{"folder": "r", "runs": [run], "tests": [test]}],
    }
    monkeypatch.setattr(learner, "_report", lambda _: report)
    shown = learn("show", ID, "--templates")
    assert shown.exit_code == 0, shown.output
    assert "pool <*> is full" in shown.stdout
    runs = learn("show", ID, "--runs")
    assert "test_b" in runs.stdout
    assert [request.url.params["part"] for request in learner.requests] == ["templates", "suites"]
