"""Tables of jobs that learn, and of what they found."""

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.output import clean_line, format_number, format_size
from skillbus.contracts.learner.learned import LearnedFileStatus, LearnedItem, SuiteOutcome
from skillbus.contracts.learner.learning_jobs import LearningJob, LearningReport, LearningStatus, LearningSwitch
from skillbus.contracts.learner.proposals import ProposalKind

_QUOTE_CHARACTERS: Final = 120
_RESULTS: Final = {
    SuiteOutcome.PASSED: "p",
    SuiteOutcome.FAILED: "F",
    SuiteOutcome.BOTH: "B",
    SuiteOutcome.SKIPPED: "s",
    SuiteOutcome.ABSENT: ".",
}
_FILES: Final = 50
"""Files with problems that are shown. `--json` has all."""


def render_jobs(jobs: Sequence[LearningJob]) -> RenderableType:
    """Render jobs, one a line."""
    if not jobs:
        return Text("There is no job. `skillbus learn PATH` starts one.")
    headings = ("id", "status", "source", "task", "files", "size", "new", "known", "began")
    rows = [
        (
            *(job.id, job.status.value, job.source, job.task),
            *(str(job.progress.total_files), format_size(job.progress.total_bytes)),
            *(str(job.new_items), str(job.known_items), f"{job.created_at.astimezone():%m-%d %H:%M}"),
        )
        for job in jobs
    ]
    numbers, optional = ("files", "size", "new", "known"), ("began", "task", "size")
    table = tables.build_table(headings, rows, numbers=numbers, whole=("status", "began"), optional=optional)
    return Group(table, Text(format_number(len(jobs), "job"), "dim"))


def render_sources(sources: Sequence[LearningSwitch]) -> RenderableType:
    """Render the sources that are switched off."""
    if not sources:
        return Text("Learning is on for all sources.")
    rows = [(one.source, f"{one.at.astimezone():%Y-%m-%d %H:%M}" if one.at else "", one.by) for one in sources]
    return tables.build_table(("switched off", "since", "by"), rows)


def render_report(report: LearningReport, *, is_repeated: bool = False) -> RenderableType:
    """Render a job with its items and the files that could not be read. `is_repeated`: the job was an earlier one."""
    parts: list[RenderableType] = []
    if report.items:
        headings = ("kind", "title", "seen", "confidence", "evidence")
        rows = [_format_item(item) for item in report.items]
        parts += [tables.build_table(headings, rows, numbers=("seen",), whole=("kind", "confidence")), Text()]
    problems = [file for file in report.files if file.status is not LearnedFileStatus.READ]
    if problems:
        rows_of_files = [(file.path, file.status.value, file.error or "") for file in problems[:_FILES]]
        parts += [tables.build_table(("file", "result", "reason"), rows_of_files), Text()]
    return Group(*parts, Text(_summarize(report, is_repeated=is_repeated), "dim"))


def render_templates(report: LearningReport) -> RenderableType:
    """Render the templates of a job's logs."""
    if not report.templates:
        return Text("The job has read no log.")
    headings = ("level", "count", "template", "file", "lines")
    rows = [
        (one.level.value, str(one.count), one.text, one.file, f"{one.first_line}-{one.last_line}")
        for one in report.templates
    ]
    table = tables.build_table(headings, rows, numbers=("count",), whole=("level", "lines"), optional=("file",))
    return Group(table, Text(format_number(len(rows), "template"), "dim"))


def render_suites(report: LearningReport) -> RenderableType:
    """Render the last runs of test suites, and the tests of findings with their results, oldest first."""
    if not report.suites:
        return Text("The job has read no report of a test run.")
    parts: list[RenderableType] = []
    for suite in report.suites:
        rows = [
            (suite.folder, run.run, run.commit[:12], *map(str, (run.passed, run.failed, run.skipped)))
            for run in suite.runs
        ]
        headings, numbers = ("suite", "run", "commit", "passed", "failed", "skipped"), ("passed", "failed", "skipped")
        parts += [tables.build_table(headings, rows, numbers=numbers, optional=("suite", "commit")), Text()]
        results = [
            (one.test, one.kind.value, "".join(_RESULTS[outcome] for outcome in one.outcomes)) for one in suite.tests
        ]
        if results:
            parts += [tables.build_table(("test", "kind", "results"), results, whole=("kind", "results")), Text()]
    return Group(*parts, Text("p passed, F failed, B both in one run, s skipped, . absent", "dim"))


def _format_item(item: LearnedItem) -> tuple[str, ...]:
    first = item.evidence[0]
    place = f"{first.file}:{first.line}" if first.line else first.file
    quote = clean_line(first.quote)
    cut = f"{quote[:_QUOTE_CHARACTERS]}…" if len(quote) > _QUOTE_CHARACTERS else quote
    confidence = f"{item.confidence.low:.2f}-{item.confidence.high:.2f}"
    return item.kind.value, item.title, str(item.seen), confidence, f"{place}: {cut}"


def _summarize(report: LearningReport, *, is_repeated: bool) -> str:
    job, files = report.job, report.files
    if job.status is not LearningStatus.DONE:
        return f"The job {job.id} is {job.status.value}."
    read = sum(file.status is LearnedFileStatus.READ for file in files)
    new = format_number(job.new_items, "new item")
    changed = sum(item.proposal is ProposalKind.UPDATE for item in report.items)
    known = f"{job.known_items} known before" + (f", {changed} of them with another value now" if changed else "")
    summary = f"{read} of {format_number(len(files), 'file')} read: {new}, {known}."
    if is_repeated:
        return f"Nothing new now. The job of {job.created_at.astimezone():%Y-%m-%d %H:%M}: {summary}"
    is_waiting = job.new_items or changed
    return f"{summary} `skillbus knowledge proposals` lists them for review." if is_waiting else summary
