import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TextIO

import httpx
import pytest

from skillbus.cli.errors import StartFailedError
from skillbus.cli.server.launcher import Externals, RunningServer, ServerPlan
from skillbus.contracts.errors import ErrorCode

from .conftest import CommandLine
from .fake_knowledge import FakeKnowledge, built, found, found_item, import_report
from .fake_server import FakeServer, Json, hit, problem, run_reply


@dataclass(frozen=True)
class FakeRunning:
    data: Path
    http_url: str = "http://127.0.0.1:1"
    nats_url: str = "nats://127.0.0.1:2"
    api_key: str | None = "the-owner's-key"


async def until_said(words: bytes) -> None:
    """Wait until a command wrote the words to stdout or stderr; the test's runner has both in memory."""
    async with asyncio.timeout(5):
        while not any(words in written(stream) for stream in (sys.stdout, sys.stderr)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def written(stream: TextIO) -> bytes:
    return stream.buffer.getvalue() if isinstance(stream.buffer, io.BytesIO) else b""


@dataclass
class FakeStandalone:
    """Starts nothing; remembers what it was started with, and whether it was stopped."""

    server: FakeServer
    refusal: str = ""
    plans: list[ServerPlan] = field(default_factory=list)
    stopped: int = 0

    @asynccontextmanager
    async def start(self, plan: ServerPlan) -> AsyncIterator[RunningServer]:
        if self.refusal:
            raise StartFailedError(self.refusal)
        self.plans.append(plan)
        try:
            yield FakeRunning(plan.data)
        finally:
            self.stopped += 1

    def externals(self, *, signalled: bool = False, once_said: bytes = b"") -> Externals:
        """With a signal that is there from the start, that comes once something is said, or that never comes."""

        async def wait_for_signal() -> None:
            if once_said:
                await until_said(once_said)
            elif not signalled:
                await asyncio.Event().wait()

        return Externals(self.server.transport(), self.start, wait_for_signal)


@pytest.fixture
def standalone(server: FakeServer, knowledge: FakeKnowledge) -> FakeStandalone:
    server.hits = [hit("git-commit")]
    server.ran = run_reply(stdout='{"message":"feat: 新功能"}', result={"message": "feat: 新功能"})
    server.knows = knowledge.answer
    return FakeStandalone(server)


@pytest.fixture
def knowledge() -> FakeKnowledge:
    answers = {
        "POST /import": import_report(results=[]),
        "POST /search": found(found_item("i-1")),
        "POST /context": built(),
    }
    return FakeKnowledge(answers=dict(answers))


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    for name in ("git-commit", "word-count"):
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: x\n---\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "change.diff").write_text("diff --git a/x b/x\n")
    (tmp_path / "knowledge").mkdir()
    (tmp_path / "knowledge" / "rule.md").write_text("---\ntype: business_rule\ntitle: t\n---\n\nc\n")
    return tmp_path / "skills"


def test_the_demo_installs_searches_and_runs_on_a_temporary_server(
    skillbus: CommandLine, standalone: FakeStandalone, examples: Path
) -> None:
    standalone.server.polls_until_indexed = 2

    result = skillbus("demo", "--skills", str(examples), externals=standalone.externals())

    assert result.exit_code == 0, result.output
    for said in ("Services ready", "word-count", "帮我提交代码", "git-commit", "0.87", "feat: 新功能", "/docs"):
        assert said in result.stdout
    for said in ("1 knowledge items", "直播电商模块需要哪些header参数", "直播接口需要 game-id", "42 of 300 tokens"):
        assert said in result.stdout
    run = next(request for request in standalone.server.requests if request.url.path.endswith("/git-commit/run"))
    assert json.loads(run.content)["args"] == {"file": "change.diff"}
    assert standalone.stopped == 1
    assert standalone.plans[0].http_port == 0
    assert not standalone.plans[0].data.exists()


def test_the_demo_searches_knowledge_once_the_index_has_it(
    skillbus: CommandLine, standalone: FakeStandalone, examples: Path, knowledge: FakeKnowledge
) -> None:
    skillbus("demo", "--skills", str(examples), externals=standalone.externals())

    imported = next(request for request in knowledge.requests if request.url.path.endswith("/import"))
    assert imported.url.params["wait"] == "indexed"


def test_the_demo_in_json_is_one_document_with_each_step(
    skillbus: CommandLine, standalone: FakeStandalone, examples: Path
) -> None:
    result = skillbus("demo", "--json", "--skills", str(examples), externals=standalone.externals())

    document = json.loads(result.stdout)
    assert document["ok"] is True
    assert [step["step"] for step in document["steps"]] == [
        "start",
        "install",
        "index",
        "search_chinese",
        "search_english",
        "run",
        "import_knowledge",
        "search_knowledge",
        "build_context",
    ]
    assert all(step["ok"] for step in document["steps"])
    assert result.stderr == ""


def test_a_step_that_fails_is_named_and_everything_is_stopped(
    skillbus: CommandLine, standalone: FakeStandalone, examples: Path
) -> None:
    standalone.server.ran = problem(ErrorCode.SANDBOX_UNAVAILABLE, "user namespaces are off")

    result = skillbus("demo", "--skills", str(examples), externals=standalone.externals())

    assert result.exit_code == 1
    assert "step run" in result.stderr
    assert "user namespaces are off" in result.stderr
    assert standalone.stopped == 1


def test_a_failed_step_in_json_ends_the_list_of_steps(
    skillbus: CommandLine, standalone: FakeStandalone, examples: Path
) -> None:
    standalone.server.rejects["word-count"] = problem(ErrorCode.SKILL_REJECTED, "no description")

    result = skillbus("demo", "--json", "--skills", str(examples), externals=standalone.externals())

    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (document["ok"], document["failed"]) == (False, "install")
    assert [step["ok"] for step in document["steps"]] == [True, False]


def test_the_demo_that_stays_stays_up_after_a_failed_run_and_exits_with_1(
    skillbus: CommandLine, standalone: FakeStandalone, examples: Path, tmp_path: Path
) -> None:
    standalone.server.ran = problem(ErrorCode.SANDBOX_UNAVAILABLE, "user namespaces are off")
    outside = standalone.externals(once_said=b"The server runs until")
    words = ["--stay", "--data", str(tmp_path / "kept"), "--skills", str(examples)]

    result = skillbus("demo", *words, externals=outside)

    assert result.exit_code == 1
    for said in ("step run", "user namespaces are off", "Search and install work", "http://127.0.0.1:1/docs"):
        assert result.stderr.count(said) == 1, said
    assert result.stderr.endswith("Stopped.\n")
    assert standalone.stopped == 1


def test_a_failed_step_of_the_demo_that_stays_is_one_json_document(
    skillbus: CommandLine, standalone: FakeStandalone, examples: Path, tmp_path: Path
) -> None:
    standalone.server.rejects["word-count"] = problem(ErrorCode.SKILL_REJECTED, "no description")
    outside = standalone.externals(once_said=b'"failed"')
    words = ["--json", "--stay", "--data", str(tmp_path / "kept"), "--skills", str(examples)]

    result = skillbus("demo", *words, externals=outside)

    assert result.exit_code == 1
    assert json.loads(result.stdout)["failed"] == "install"
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("changed", "failed"),
    [
        ({"hits": []}, "search_chinese"),
        ({"hits": [hit("unheard-of")]}, "run"),
        ({"ran": run_reply(status="timeout", exit_code=None)}, "run"),
    ],
)
def test_a_result_that_is_no_result_fails_the_demo(
    skillbus: CommandLine, standalone: FakeStandalone, examples: Path, changed: dict[str, object], failed: str
) -> None:
    for name, value in changed.items():
        setattr(standalone.server, name, value)

    result = skillbus("demo", "--json", "--skills", str(examples), externals=standalone.externals())

    assert result.exit_code == 1
    assert json.loads(result.stdout)["failed"] == failed


REJECTED = import_report(results=[{"line": 1, "outcome": "rejected", "error": "title: is blank"}])


@pytest.mark.parametrize(
    ("answers", "failed", "said"),
    [
        ({"POST /import": REJECTED}, "import_knowledge", "title: is blank"),
        ({"POST /import": problem(ErrorCode.UNAVAILABLE, "No learner is running.")}, "import_knowledge", "No learner"),
        ({"POST /search": found()}, "search_knowledge", "nothing was found"),
        ({"POST /context": built("", items=[])}, "build_context", "no item fits"),
    ],
)
def test_knowledge_that_is_not_taken_or_not_found_fails_the_demo(
    skillbus: CommandLine,
    standalone: FakeStandalone,
    knowledge: FakeKnowledge,
    examples: Path,
    answers: dict[str, Json | httpx.Response],
    failed: str,
    said: str,
) -> None:
    knowledge.answers |= answers

    result = skillbus("demo", "--json", "--skills", str(examples), externals=standalone.externals())

    document = json.loads(result.stdout)
    assert (result.exit_code, document["failed"]) == (1, failed)
    assert said in document["error"]["detail"]


def test_the_demo_without_knowledge_beside_its_skills_says_so(
    skillbus: CommandLine, standalone: FakeStandalone, examples: Path
) -> None:
    (examples.parent / "knowledge" / "rule.md").unlink()

    result = skillbus("demo", "--skills", str(examples), externals=standalone.externals())

    assert result.exit_code == 1
    assert "step import_knowledge" in result.stderr


def test_a_server_that_does_not_start_is_told_in_a_line(
    skillbus: CommandLine, standalone: FakeStandalone, examples: Path
) -> None:
    standalone.refusal = "port 8080 is taken: choose another with --http-port"

    for words in (["up"], ["demo", "--skills", str(examples)]):
        result = skillbus(*words, externals=standalone.externals())
        assert result.exit_code == 1
        assert "port 8080 is taken" in result.stderr


def test_the_demo_without_skills_starts_nothing(
    skillbus: CommandLine, standalone: FakeStandalone, tmp_path: Path
) -> None:
    result = skillbus("demo", "--skills", str(tmp_path), externals=standalone.externals())

    assert result.exit_code == 1
    assert standalone.plans == []


def test_a_signal_during_the_demo_ends_it_and_stops_the_server(
    skillbus: CommandLine, standalone: FakeStandalone, examples: Path
) -> None:
    standalone.server.polls_until_indexed = -1
    started = perf_counter()

    result = skillbus("demo", "--json", "--skills", str(examples), externals=standalone.externals(signalled=True))

    assert perf_counter() - started < 5

    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "interrupted"
    assert standalone.stopped == 1


def test_the_demo_that_stays_stops_at_a_signal_and_keeps_its_data(
    skillbus: CommandLine, standalone: FakeStandalone, examples: Path, tmp_path: Path
) -> None:
    outside = standalone.externals(once_said=b"The server runs until")
    kept = tmp_path / "kept"

    result = skillbus("demo", "--stay", "--data", str(kept), "--skills", str(examples), externals=outside)

    assert result.exit_code == 0, result.output
    assert result.stderr.endswith("Stopped.\n")
    assert standalone.plans == [ServerPlan(kept, "127.0.0.1", 8080, "WARNING")]
    assert standalone.stopped == 1


def test_up_tells_where_it_is_and_stays_until_a_signal(
    skillbus: CommandLine, standalone: FakeStandalone, tmp_path: Path
) -> None:
    words = ["up", "--json", "--data", str(tmp_path), "--http-port", "8123", "--log-level", "debug"]

    result = skillbus(*words, externals=standalone.externals(signalled=True))

    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (document["http_url"], document["docs_url"]) == ("http://127.0.0.1:1", "http://127.0.0.1:1/docs")
    assert document["data"] == str(tmp_path)
    assert standalone.plans == [ServerPlan(tmp_path, "127.0.0.1", 8123, "DEBUG")]
    assert standalone.stopped == 1


@pytest.mark.parametrize(
    ("words", "variable", "told"),
    [
        (["--workers", "0"], None, "must be greater than or equal to 1"),
        (["--workers", "-1"], None, "must be greater than or equal to 1"),
        (["--workers", "1000"], None, "must be less than or equal to 64"),
        (["--workers", "two"], None, "must be a valid integer"),
        ([], "two", "must be a valid integer"),
    ],
)
def test_a_number_of_workers_that_cannot_be_is_wrong_usage(
    skillbus: CommandLine,
    standalone: FakeStandalone,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    variable: str | None,
    told: str,
) -> None:
    if variable is not None:
        monkeypatch.setenv("SKILLBUS_WORKERS", variable)
    result = skillbus("up", *words, externals=standalone.externals(signalled=True))
    assert result.exit_code == 2
    assert "--workers" in result.stderr
    assert told in result.stderr
    assert standalone.plans == []


def test_up_starts_as_many_workers_as_it_is_told_to(
    skillbus: CommandLine, standalone: FakeStandalone, tmp_path: Path
) -> None:
    words = ["up", "--data", str(tmp_path), "--workers", "4"]
    skillbus(*words, externals=standalone.externals(signalled=True))
    assert [plan.workers for plan in standalone.plans] == [4]


def test_up_prints_a_link_that_logs_a_browser_in(
    skillbus: CommandLine, standalone: FakeStandalone, tmp_path: Path
) -> None:
    result = skillbus("up", "--data", str(tmp_path), externals=standalone.externals(signalled=True))
    assert result.exit_code == 0
    assert "http://127.0.0.1:1/login?token=t" in result.stdout
    assert standalone.server.requests[-1].headers["Authorization"] == "Bearer the-owner's-key"


def test_open_prints_a_link_to_a_page(skillbus: CommandLine, standalone: FakeStandalone) -> None:
    words = ["open", "--print", "--page", "/review", "--url", "http://127.0.0.1:1", "--api-key", "k"]
    result = skillbus(*words, externals=standalone.externals())
    assert result.stdout == "http://127.0.0.1:1/login?token=t&next=/review\n"
