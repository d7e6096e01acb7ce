"""Builder of a test run, filled by the readers of reports one test after another."""

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

from skillbus.learning.redaction import redact_commit, redact_path, redact_text
from skillbus.learning.test_runs.failures.failure_text import parse_failure
from skillbus.learning.test_runs.failures.signatures import find_embedded_error, mask_message
from skillbus.learning.test_runs.values import (
    CALL,
    MAX_FAILURES,
    SkippedTests,
    TestFailure,
    TestRun,
    encode_keys,
    get_test_key,
)

TEXT_CHARACTERS: Final = 256 * 1024
"""Most of a failure's text that is read."""
QUOTE_CHARACTERS: Final = 300
_OUTPUT_CHARACTERS: Final = 20_000
_ID_CHARACTERS: Final = 500
_REASONS: Final = 50
_COMMIT: Final = re.compile(r"(?<![0-9a-zA-Z])(?=[0-9a-f]*[a-f])(?=[a-f]*\d)[0-9a-f]{7,40}(?![0-9a-zA-Z])")
_ENDINGS: Final = re.compile(
    r"(?:[._-](?:junit|xunit|surefire|pytest|test-?report|test-?results?|report|results?))*(?:\.(?:xml|json))?(?:\.gz)?$",
    re.IGNORECASE,
)
COMMIT_NAMES: Final = re.compile(
    r"(?:git|ci|github|build|vcs|scm|bitbucket|circle|buildkite|gitlab)?[._-]?(?:git[._-]?)?(?:commit|sha1?|revision)"
    r"(?:[._-]?(?:sha1?|id|hash))?",
    re.IGNORECASE,
)
BRANCH_NAMES: Final = re.compile(
    r"(?:git|ci|github|build|vcs|bitbucket|circle|buildkite|gitlab)?[._-]?(?:commit[._-]?)?(?:branch|ref[._-]?name)"
    r"(?:[._-]?name)?",
    re.IGNORECASE,
)

QuoteFinder = Callable[[str], tuple[int, str]]
"""Returns the line in the file, and the literal redacted text, of a line of a failure's text."""


@dataclass(slots=True)
class RunBuilder:
    """Results of a run while its file is read."""

    file: str
    format: str
    root: str = ""
    commit: str = ""
    branch: str = ""
    started: str = ""
    cases: int = 0
    passed: "array[int]" = field(default_factory=lambda: array("Q"))
    failed: "array[int]" = field(default_factory=lambda: array("Q"))
    failures: list[TestFailure] = field(default_factory=list)
    skipped: dict[str, "tuple[array[int], int, str]"] = field(default_factory=dict)

    def add_pass(self, test: str) -> None:
        """Add an attempt that passed."""
        self.passed.append(get_test_key(test))

    def add_failure(
        self,
        test: str,
        text: str,
        message: str,
        kind: str,
        find_quote: QuoteFinder,
        stage: str = CALL,
        output: str = "",
    ) -> None:
        """Add an attempt that failed.

        `output` is what the test printed: it counts if the failure is a wrong status of a response.
        """
        key = get_test_key(test)
        self.failed.append(key)
        if len(self.failures) >= MAX_FAILURES:
            return
        test, text, message = redact_test(test), text[:TEXT_CHARACTERS], message[:TEXT_CHARACTERS]
        if not text.strip() or _is_traceback(message):
            text = message if len(message) > len(text) else text
        line, quote = find_quote(_choose_line(text, message))
        text, message = redact_text(text), redact_text("" if _is_traceback(message) else message)
        cause = parse_failure(text, message, kind, test, redact_text(self.root))
        errors = "\n".join(_list_error_lines(text)) or text[-20_000:]
        embedded = find_embedded_error(cause.exception, f"{cause.message}\n{message}\n{errors[:20_000]}")
        if not embedded and "status" in f"{cause.assertion} {cause.message}".lower():
            embedded = find_embedded_error(cause.exception, redact_text(output[-_OUTPUT_CHARACTERS:]))
        self.failures.append(
            TestFailure(
                test=test,
                key=key,
                stage=stage,
                exception=cause.exception or ("Failure" if stage == CALL else "Error"),
                outer=cause.outer,
                message=_clean(cause.message)[:600],
                assertion=_clean(cause.assertion)[:200],
                embedded=_clean(embedded)[:400],
                frames=cause.frames,
                file=redact_path(self.file)[:300],
                line=line,
                quote=_clean(quote)[:QUOTE_CHARACTERS] or test[:QUOTE_CHARACTERS],
            )
        )

    def add_skip(self, test: str, reason: str, find_quote: QuoteFinder) -> None:
        """Add a test that was skipped."""
        masked = mask_message(redact_text(" ".join(reason[:2_000].split()) or "no reason"))
        if masked not in self.skipped:
            if len(self.skipped) >= _REASONS:
                masked = "other reasons"
            if masked not in self.skipped:
                line, quote = find_quote(reason.strip()[:QUOTE_CHARACTERS])
                self.skipped[masked] = (array("Q"), line, _clean(quote)[:QUOTE_CHARACTERS])
        self.skipped[masked][0].append(get_test_key(test))

    def build(self) -> TestRun:
        """Return the run."""
        file = redact_path(self.file)[:300]
        name = PurePosixPath(file.replace("\\", "/").rpartition("!")[2]).name
        commits = _COMMIT.findall(name.lower())
        return TestRun(
            run=name_run(file),
            commit=redact_commit(self.commit)[:100] or (commits[-1] if commits else ""),
            branch=redact_text(self.branch)[:200],
            started=parse_time(self.started),
            files=(file,),
            format=self.format,
            cases=self.cases,
            passed=encode_keys(self.passed),
            failed=encode_keys(self.failed),
            failures=tuple(self.failures),
            skipped=tuple(
                SkippedTests(reason=reason, keys=encode_keys(keys), file=file, line=line, quote=quote or reason)
                for reason, (keys, line, quote) in sorted(self.skipped.items())
            ),
        )


def name_run(file: str) -> str:
    """Return the run's id of a file: its path without the endings of reports, so that two reports of a run have one."""
    path = PurePosixPath(file.replace("\\", "/"))
    stem = _ENDINGS.sub("", path.name).rstrip("._-") or path.name
    return str(path.with_name(stem))


def redact_test(test: str) -> str:
    """Return a test's id without secrets and control characters."""
    path, bracket, parameters = test[:_ID_CHARACTERS].partition("[")
    return _clean(redact_path(path) + redact_text(bracket + parameters)) or "unnamed"


def parse_time(value: str | float) -> str:
    """Return a time in ISO 8601, UTC, whole seconds; empty if it is none."""
    try:
        plain = datetime.fromisoformat(value.strip()) if isinstance(value, str) else datetime.fromtimestamp(value, UTC)
        moment = plain if plain.tzinfo else plain.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""


def _is_traceback(message: str) -> bool:
    return message.count("\n") > 3


def _list_error_lines(text: str) -> list[str]:
    """Return the lines that pytest marks as the error."""
    return [line for line in text.splitlines() if re.match(r"\s*E\s+\S", line)]


def _choose_line(text: str, message: str) -> str:
    """Return the line that says most about a failure: pytest's first error line, else the message, else the text."""
    lines = text.splitlines()
    errors = _list_error_lines(text)
    first = next((line for line in message.splitlines() if line.strip()), "")
    said = next((line for line in lines if first and first.strip() in line), "")
    plain = next((line for line in lines if line.strip()), "")
    return (errors[0] if errors else said or first or plain).strip()[:QUOTE_CHARACTERS]


def _clean(text: str) -> str:
    return "".join(character if character.isprintable() or character == "\n" else " " for character in text).strip()
