"""Jobs with the real extraction in its process: logs and reports of test runs become pending items with evidence."""

from pathlib import Path

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.learner.learned import LearnedKind, ReportPart
from skillbus.contracts.learner.learning_jobs import (
    GET_LEARNING_REPORT,
    GetLearningReport,
    LearningInputKind,
    LearningReport,
    LearningStatus,
    RunContext,
)
from skillbus.learner.wiring import open_learner

from .fake_services import open_fake_retriever
from .test_learning_jobs import export_pending, learn, make_file, make_settings

_REFUSED = "2026-01-01 10:00:{:02} ERROR [pool] connection to 10.0.0.7:5432 refused, password=kanari8Vogel\n"
_CASE = '<testcase classname="test_rooms.TestRooms" name="test_{}">{}</testcase>'
_FAILURE = (
    '<failure message="ValueError: no such room">Traceback (most recent call last):\n'
    '  File "rooms/booking.py", line 3, in book\n    raise ValueError\nValueError: no such room</failure>'
)


def make_suite(*failed: int) -> str:
    cases = "".join(_CASE.format(number, _FAILURE if number in failed else "") for number in range(8))
    return f'<testsuite name="s" timestamp="2026-01-01T00:00:00">{cases}</testsuite>'


async def ask_part(bus: Bus, job: str, part: ReportPart) -> LearningReport:
    return await bus.caller.call(GET_LEARNING_REPORT, GetLearningReport(id=job, part=part))


@pytest.mark.spec("knowledge-base.md § 从日志解析中学习")
@pytest.mark.spec("knowledge-base.md § 从测试失败中学习")
async def test_logs_and_failed_tests_become_pending_items_with_their_source(bus: Bus, tmp_path: Path) -> None:
    log = "".join(_REFUSED.format(second) for second in range(30))
    files = (make_file("app.log", log), make_file("report.xml", make_suite(3)), make_file("core", "\x01\x02" * 100))
    given = {"what": LearningInputKind.FILES, "task": "nightly", "context": RunContext(run="r1", commit="c1")}
    async with open_fake_retriever(bus), open_learner(bus, make_settings(tmp_path)):
        job = await learn(bus, *files, **given)
        report = await bus.caller.call(GET_LEARNING_REPORT, GetLearningReport(id=job.id))
        found = await export_pending(bus)
        again = await learn(bus, make_file("app.log", log))
        parts = {part: await ask_part(bus, job.id, part) for part in ReportPart}
        kept = await bus.caller.call(GET_LEARNING_REPORT, GetLearningReport(id=job.id, kind=LearnedKind.INCIDENT))
    assert (job.status, again.new_items) == (LearningStatus.DONE, 0)
    assert (parts[ReportPart.FILES].files, parts[ReportPart.ITEMS].items) == (report.files, report.items)
    assert {item.status for item in report.items} == {KnowledgeStatus.PENDING}
    assert {item.kind for item in kept.items} == {LearnedKind.INCIDENT}
    [template] = parts[ReportPart.TEMPLATES].templates
    assert (template.count, template.level) == (30, "error")
    [suite] = parts[ReportPart.SUITES].suites
    assert [(run.run, run.passed, run.failed) for run in suite.runs] == [("r1", 7, 1)]
    totals = report.totals
    assert (totals.files, totals.templates, totals.suites, totals.lines) == (3, 1, 1, 30)
    assert totals.items == len(report.items) == sum(totals.kinds.values())
    assert [(file.path, file.status.value) for file in report.files] == [
        ("app.log", "read"),
        ("report.xml", "read"),
        ("core", "skipped"),
    ]
    kinds = {item.kind for item in report.items}
    assert LearnedKind.INCIDENT in kinds
    assert kinds & {LearnedKind.REGRESSION, LearnedKind.PREEXISTING}
    assert {("log_learning", "nightly"), ("test_learning", "nightly")} == {(it.source, it.source_ref) for it in found}
    assert "test_experience" in {item.type for item in found}
    assert "kanari8Vogel" not in report.model_dump_json()
