"""Extraction of a job: reads its files one after the other, and joins what they show.

An error of a file is its result; the other files are read all the same.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from skillbus.contracts.learner.learned import (
    EvidenceQuote,
    LearnedFile,
    LearnedFileStatus,
    LearnedItem,
    LearnedSuite,
    LearnedTemplate,
    LogLevel,
)
from skillbus.contracts.learner.learning_jobs import LearningInputKind, RunContext
from skillbus.learning.job import Extraction, ExtractionJob, JobFile, QuotedSection, ReadingProgress
from skillbus.learning.joining import join_items
from skillbus.learning.logs.learning import LogFindings, learn_from_log
from skillbus.learning.redaction import count_redactions, redact_commit, redact_path, redact_text
from skillbus.learning.sources.file_format import START_BYTES, FileFormat, UnknownFormatError, recognize_format
from skillbus.learning.sources.source_file import READ_ERRORS, SourceFile, list_source_files
from skillbus.learning.sources.text_lines import decode_text, read_lines, read_text
from skillbus.learning.test_runs.joining import ListedRun, read_run_list
from skillbus.learning.test_runs.junit import read_junit
from skillbus.learning.test_runs.learning import learn_from_runs
from skillbus.learning.test_runs.pytest_json import read_pytest_json
from skillbus.learning.test_runs.suite_summary import summarize_suite
from skillbus.learning.test_runs.values import TestRun
from skillbus.learning.traffic.access_log import read_access_log
from skillbus.learning.traffic.calls import HttpCall
from skillbus.learning.traffic.har import read_har
from skillbus.learning.traffic.learning import learn_from_calls

_OF_TESTS: Final = frozenset({FileFormat.JUNIT, FileFormat.PYTEST_JSON, FileFormat.RUN_LIST})
_RUN_LIST_BYTES: Final = 16 * 1024 * 1024
_LINES_BETWEEN_REPORTS: Final = 10_000
_LEVELS: Final = tuple(LogLevel)
_FILE_ERRORS: Final = (*READ_ERRORS, ValueError, OverflowError, RecursionError)
"""Errors of one file. `UnreadableRunError` and `UnreadableTrafficError` are ValueErrors."""


@dataclass(slots=True)
class _Reader:
    """Findings of the files that were read so far."""

    job: ExtractionJob
    report: Callable[[ReadingProgress], None]
    files: list[LearnedFile] = field(default_factory=list)
    items: list[LearnedItem] = field(default_factory=list)
    sections: list[QuotedSection] = field(default_factory=list)
    runs: list[TestRun] = field(default_factory=list)
    listed: list[ListedRun] = field(default_factory=list)
    templates: list[LearnedTemplate] = field(default_factory=list)
    suites: list[LearnedSuite] = field(default_factory=list)
    lines: int = 0
    """Lines of the current file."""
    found_templates: int = 0
    """Templates of the current file."""
    files_done: int = 0
    bytes_done: int = 0

    def read_job_file(self, file: JobFile) -> None:
        """Read a file, or each member of an archive."""
        path = Path(file.path)
        try:
            for source in list_source_files(file.name, path):
                self._read_source(source, path.stat().st_size)
        except READ_ERRORS as error:
            self._add_failure(file.name, "", error)
        self.files_done += 1
        self.bytes_done += path.stat().st_size
        self._report(0)

    def _read_source(self, source: SourceFile, size_bytes: int) -> None:
        format_name = ""
        self.lines = self.found_templates = 0
        try:
            found = recognize_format(source.name, source.read_start(START_BYTES))
            format_name = found.value
            _require_wanted(found, self.job.what)
            records = self._read_format(source, found, size_bytes)
        except UnknownFormatError as error:
            self._add_file(source.name, LearnedFileStatus.SKIPPED, format_name, error=str(error))
        except _FILE_ERRORS as error:
            self._add_failure(source.name, format_name, error)
        else:
            self._add_file(source.name, LearnedFileStatus.READ, format_name, records)

    def _read_format(self, source: SourceFile, found: FileFormat, size_bytes: int) -> int:
        """Read a file of a known format, and return the number of its records."""
        with source.open() as stream:
            match found:
                case FileFormat.JUNIT:
                    return self._add_run(read_junit(source.name, stream))
                case FileFormat.PYTEST_JSON:
                    return self._add_run(read_pytest_json(source.name, stream))
                case FileFormat.RUN_LIST:
                    listed = read_run_list(decode_text(stream.read(_RUN_LIST_BYTES)))
                    self.listed += listed
                    return len(listed)
            if found is FileFormat.HAR:
                return self._add_traffic(source.name, read_har(read_text(stream)))
            lines = self._follow_lines(read_lines(stream), size_bytes)
            if found is FileFormat.LOG:
                return self._add_log(learn_from_log(source.name, lines, self.job.settings.logs))
            return self._add_traffic(source.name, read_access_log(lines))

    def _add_traffic(self, name: str, calls: Iterable[HttpCall]) -> int:
        traffic = learn_from_calls(name, calls, self.job.settings.traffic)
        self._add_items(traffic.items)
        return traffic.calls

    def _add_run(self, run: TestRun) -> int:
        self.runs.append(run)
        return run.cases

    def _add_log(self, found: LogFindings) -> int:
        self._add_items(found.items)
        severe_first = sorted(found.templates, key=_rank_template)
        self.templates = sorted([*self.templates, *severe_first], key=_rank_template)[: self.job.settings.max_templates]
        most = self.job.settings.max_sections
        for template in severe_first[:most]:
            if len(self.sections) >= most:
                break
            title = f"{template.level.name}, {template.count} times"
            self.sections += [_quote_section(title, quote) for quote in template.evidence[:2]]
        self.found_templates = len(found.templates)
        return found.records

    def _add_items(self, items: Iterable[LearnedItem]) -> None:
        self.items += items

    def _add_failure(self, name: str, format_name: str, error: BaseException) -> None:
        reason = redact_text(str(error))[:500] or type(error).__name__
        self._add_file(name, LearnedFileStatus.FAILED, format_name, error=reason)

    def _add_file(
        self, name: str, status: LearnedFileStatus, format_name: str, records: int = 0, error: str | None = None
    ) -> None:
        file = LearnedFile(path=name, status=status, format=format_name, records=records, error=error)
        read = {"lines": self.lines, "templates": self.found_templates}
        self.files.append(file.model_copy(update=read if status is LearnedFileStatus.READ else {}))

    def _follow_lines(self, lines: Iterator[str], size_bytes: int) -> Iterator[str]:
        """Yield the lines, and report progress. Of a compressed file it is estimated, up to the size of the file."""
        seen = 0
        for number, line in enumerate(lines):
            seen += len(line) + 1
            self.lines = number + 1
            if number % _LINES_BETWEEN_REPORTS == 0:
                self._report(min(seen, size_bytes))
            yield line

    def _report(self, within: int) -> None:
        progress = ReadingProgress(
            files_done=self.files_done, bytes_done=self.bytes_done + within, items=len(self.items)
        )
        self.report(progress)


def extract(job: ExtractionJob, history: Sequence[TestRun], report: Callable[[ReadingProgress], None]) -> Extraction:
    """Return what the files of a job show, with the test runs of its history."""
    reader = _Reader(job, report)
    for file in job.files:
        reader.read_job_file(file)
    runs, files = _learn_from_suites(reader, history)
    items = join_items(reader.items, job.settings.max_items)
    sections = [*_quote_items(items), *reader.sections][: job.settings.max_sections]
    quotes = {quote for item in items for quote in item.evidence}
    quotes |= {quote for template in reader.templates for quote in template.evidence}
    return Extraction(
        files=tuple(files),
        items=items,
        digest=tuple(sections),
        runs=tuple(runs),
        templates=tuple(reader.templates),
        suites=tuple(reader.suites),
        redactions=count_redactions(quote.quote for quote in quotes),
    )


def _require_wanted(found: FileFormat, what: LearningInputKind) -> None:
    """Raise UnknownFormatError for a format that the job does not read."""
    if what is not LearningInputKind.FILES and (found in _OF_TESTS) is not (what is LearningInputKind.TESTS):
        raise UnknownFormatError(f"the job reads {what.value} only")


def _learn_from_suites(reader: _Reader, history: Sequence[TestRun]) -> tuple[list[TestRun], list[LearnedFile]]:
    """Learn from the runs of each suite, and return the new runs, and the files with the errors of their runs.

    The reports of one folder belong to one suite.
    """
    suites: dict[str, list[TestRun]] = defaultdict(list)
    for run in (*history, *_apply_context(reader.runs, reader.job.context)):
        suites[str(PurePosixPath(run.files[0]).parent)].append(run)
    changed = {str(PurePosixPath(run.files[0]).parent) for run in reader.runs}
    errors, new = dict[str, str](), list[TestRun]()
    for folder in sorted(changed):
        found = learn_from_runs(suites[folder], reader.job.settings.tests, reader.listed)
        reader.items += found.items
        reader.suites.append(summarize_suite(folder, found))
        errors |= found.errors
        new += [run for run in found.runs if run not in history]
    files = [
        file.model_copy(update={"status": LearnedFileStatus.FAILED, "error": error})
        if (error := errors.get(redact_path(file.path)[:300])) is not None
        else file
        for file in reader.files
    ]
    return new, files


def _apply_context(runs: Sequence[TestRun], context: RunContext) -> Iterator[TestRun]:
    """Yield the runs with what is known about them. An id belongs to a job with one run only."""
    is_one = len({run.run for run in runs}) == 1
    for run in runs:
        known: dict[str, object] = {}
        if context.run and is_one:
            known |= {"run": redact_text(context.run), "named": True}
        if context.commit and not run.commit:
            known["commit"] = redact_commit(context.commit)
        if context.branch and not run.branch:
            known["branch"] = redact_text(context.branch)
        yield run.model_copy(update=known)


def _rank_template(template: LearnedTemplate) -> tuple[int, int]:
    """Return a sort key: the most severe first, then the most frequent. Without a level it counts as information."""
    return -max(_LEVELS.index(template.level), _LEVELS.index(LogLevel.INFO)), -template.count


def _quote_items(items: Iterable[LearnedItem]) -> Iterator[QuotedSection]:
    for item in items:
        yield from (_quote_section(item.title, quote) for quote in item.evidence[:2])


def _quote_section(title: str, quote: EvidenceQuote) -> QuotedSection:
    return QuotedSection(title=title, file=quote.file, line=quote.line, text=quote.quote)
