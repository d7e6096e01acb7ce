"""Items about causes of failed tests, flaky tests and faults of environments."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

from skillbus.contracts.learner.knowledge import TEST_EXPERIENCE
from skillbus.contracts.learner.learned import (
    EvidenceQuote,
    LearnedItem,
    LearnedKind,
    LearnedStatement,
)
from skillbus.contracts.scope import SCOPE_CHARACTERS, normalize_scope
from skillbus.learning.confidence import get_confidence
from skillbus.learning.test_runs.clusters import FailureCluster, FailureOccurrence
from skillbus.learning.test_runs.failures.signatures import get_location, get_signature, get_statement, is_generic
from skillbus.learning.test_runs.findings import CauseFinding, EnvironmentFinding, FlakyFinding
from skillbus.learning.test_runs.history import SkipStorm, SuiteHistory
from skillbus.learning.test_runs.settings import TestSettings
from skillbus.learning.test_runs.values import TestFailure
from skillbus.learning.texts import shorten_text

_ENVIRONMENT_TYPE: Final = "project_config"
_QUOTES: Final = 5
_TITLE_CHARACTERS: Final = 160
_SUBJECT_CHARACTERS: Final = 280
_MOST_COUNTED: Final = 1_000
_LISTED: Final = 10


def write_cause(finding: CauseFinding, history: SuiteHistory, settings: TestSettings) -> LearnedItem:
    """Return the item about a regression, or about tests that never passed."""
    cluster = finding.cluster
    first = _get_first(cluster)
    runs = sorted({occurrence.run for occurrence in cluster.occurrences})
    kind = LearnedKind.REGRESSION if finding.ever_passed else LearnedKind.PREEXISTING
    fixes = sorted(set(finding.fixed.values())) if finding.is_fixed else []
    fixed_by = tuple(dict.fromkeys(history.get_change(run) for run in fixes))
    since = history.get_change(runs[0])
    value = f"first failed at {since}" + (f"; fixed by {', '.join(fixed_by)}" if fixed_by else "")
    tests = _list_tests(cluster.occurrences)
    return LearnedItem(
        kind=kind,
        type=TEST_EXPERIENCE,
        title=_write_title(first.failure, tests),
        content="\n".join([*_describe_cause(cluster), *_describe_course(finding, history, runs, fixes)]),
        scope=_write_scope(first.failure),
        tags=("tests", kind.value),
        statement=_write_statement(first, "fails_with", value),
        tests=tests[: settings.max_tests],
        first_failed=since,
        fixed_by=fixed_by,
        evidence=_choose_quotes(cluster.occurrences),
        confidence=get_confidence(
            min(len(cluster.occurrences) + len(finding.fixed), _MOST_COUNTED), finding.passes_between
        ),
        seen=len(runs),
    )


def write_flaky(finding: FlakyFinding, history: SuiteHistory, settings: TestSettings) -> LearnedItem:
    """Return the item about tests that pass and fail on the same commit."""
    cluster = finding.cluster
    own = [occurrence for occurrence in cluster.occurrences if occurrence.key in finding.keys]
    first = _get_first(FailureCluster(cluster.signatures, own))
    runs = sorted({occurrence.run for occurrence in own})
    tests = _list_tests(own)
    changes = ", ".join(dict.fromkeys(history.get_change(run) for run in runs[:_LISTED]))
    return LearnedItem(
        kind=LearnedKind.FLAKY,
        type=TEST_EXPERIENCE,
        title=_write_title(first.failure, tests, "flaky: "),
        content="\n".join([
            *_describe_cause(cluster),
            f"Passed and failed on the same commit: {changes}. Seen in {_count(len(runs), 'run')}.",
            "It is no regression: run the tests again before you look for a change that broke them.",
        ]),
        scope=_write_scope(first.failure),
        tags=("tests", "flaky"),
        statement=_write_statement(first, "flaky", "passes and fails on the same commit"),
        tests=tests[: settings.max_tests],
        first_failed=history.get_change(runs[0]),
        evidence=_choose_quotes(own),
        confidence=get_confidence(min(finding.flips, _MOST_COUNTED)),
        seen=len(runs),
    )  # fmt: skip


def write_environment(finding: EnvironmentFinding, history: SuiteHistory, settings: TestSettings) -> LearnedItem:
    """Return the item about a fault of the environment of a run."""
    cluster = finding.cluster
    first = _get_first(cluster)
    runs = sorted({occurrence.run for occurrence in cluster.occurrences})
    said = get_statement(first.failure.message)
    need = f"tests need {finding.module}" if finding.module else "the environment of the tests fails"
    tests = _list_tests(cluster.occurrences)
    names = ", ".join(history.runs[run].run for run in runs[:_LISTED])
    return LearnedItem(
        kind=LearnedKind.ENVIRONMENT,
        type=_ENVIRONMENT_TYPE,
        title=shorten_text(f"{need[0].upper()}{need[1:]}: {first.failure.exception}: {said}", _TITLE_CHARACTERS),
        content="\n".join([
            *_describe_cause(cluster),
            f"Seen in {names}. It says nothing about the code: these results are missing, not failed or fixed.",
            f"Remedy: install {finding.module}." if finding.module else "Remedy: repair the environment of the tests.",
        ]),
        tags=("tests", "environment"),
        statement=LearnedStatement(
            subject="environment of the tests",
            predicate=f"needs:{finding.module}" if finding.module else _write_predicate("fails_with", first),
            value=shorten_text(f"{first.failure.exception}: {said}", 500),
        ),
        tests=tests[: settings.max_tests],
        first_failed=history.get_change(runs[0]),
        evidence=_choose_quotes(cluster.occurrences),
        confidence=get_confidence(min(len(cluster.occurrences), _MOST_COUNTED)),
        seen=len(runs),
    )  # fmt: skip


def write_storms(storms: Sequence[SkipStorm], history: SuiteHistory) -> list[LearnedItem]:
    """Return one item for each reason for which many tests were skipped that run elsewhere."""
    by_reason: dict[str, list[SkipStorm]] = {}
    for storm in storms:
        by_reason.setdefault(storm.skipped.reason, []).append(storm)
    items = []
    for reason, same in sorted(by_reason.items()):
        names = ", ".join(history.runs[storm.run].run for storm in same[:_LISTED])
        count = max(storm.count for storm in same)
        quotes = tuple(
            EvidenceQuote(file=storm.skipped.file, line=storm.skipped.line, quote=storm.skipped.quote)
            for storm in same[:_QUOTES]
        )
        items.append(
            LearnedItem(
                kind=LearnedKind.ENVIRONMENT,
                type=_ENVIRONMENT_TYPE,
                title=shorten_text(f"{_count(count, 'test')} skipped: {reason}", _TITLE_CHARACTERS),
                content=f"{_count(count, 'test')} that run elsewhere were skipped in {names}: {reason}.\n"
                "Their results are missing, not failed or fixed. Remedy: give the environment what the reason names.",
                tags=("tests", "environment"),
                statement=LearnedStatement(
                    subject="environment of the tests", predicate=shorten_text(f"skips:{reason}", 290), value="skipped"
                ),
                first_failed=history.get_change(same[0].run),
                evidence=quotes,
                confidence=get_confidence(min(count, _MOST_COUNTED)),
                seen=len(same),
            )
        )
    return items


def _get_first(cluster: FailureCluster) -> FailureOccurrence:
    return min(cluster.occurrences, key=lambda occurrence: (occurrence.run, occurrence.failure.test))


def _list_tests(occurrences: Iterable[FailureOccurrence]) -> tuple[str, ...]:
    return tuple(sorted({occurrence.key: occurrence.failure.test for occurrence in occurrences}.values()))


def _describe_cause(cluster: FailureCluster) -> list[str]:
    failure = _get_first(cluster).failure
    place = get_location(failure.frames)
    where = f" in `{place.module}:{place.function}` (line {place.line})" if place else ""
    raised = f", which reached the test as `{failure.outer}`" if failure.outer else ""
    lines = [f"Cause: `{failure.exception}`{where}{raised}: {shorten_text(get_statement(failure.message), 300)}"]
    if failure.embedded:
        lines.append(f"Error inside the message: {shorten_text(failure.embedded, 300)}")
    if failure.assertion and is_generic(failure.exception):
        lines.append(f"Failed check: `{shorten_text(failure.assertion, 200)}`")
    others = sorted({
        f"{signature.exception}: {signature.message}"
        for signature in map(get_signature, (occurrence.failure for occurrence in cluster.occurrences))
    } - {f"{failure.exception}: {get_signature(failure).message}"})  # fmt: skip
    lines += [f"Also seen as: {shorten_text(other, 200)}" for other in others[:3]]
    return lines


def _describe_course(
    finding: CauseFinding, history: SuiteHistory, runs: Sequence[int], fixes: Sequence[int]
) -> list[str]:
    """Return when a cause came, in how many runs it was seen, and what became of it."""
    first, last = history.runs[runs[0]], history.runs[runs[-1]]
    lines = [f"First failed at {history.get_change(runs[0])} ({first.run}); failed in {_count(len(runs), 'run')}."]
    if not finding.ever_passed:
        lines.append("The tests failed in every known run.")
    for fix in fixes:
        change = history.get_change(fix)
        count = sum(run == fix for run in finding.fixed.values())
        subject = history.runs[fix].subject
        between = f"fixed between {history.get_change(runs[-1])} and {change}"
        remedy = f"{subject} ({change})" if subject else between
        lines.append(f"Remedy: {remedy}. {_count(count, 'test')} pass since {history.runs[fix].run}.")
    if finding.masked:
        since = history.runs[min(finding.masked.values())].run
        lines.append(f"Not fixed: {_count(len(finding.masked), 'test')} fail with another cause since {since}.")
    if finding.open:
        lines.append(f"Open: {_count(len(finding.open), 'test')} still failed in the last run, {last.run}.")
    if not finding.is_fixed and finding.fixed:
        lines.append(f"{_count(len(finding.fixed), 'test')} pass again.")
    return lines


def _write_title(failure: TestFailure, tests: Sequence[str], before: str = "") -> str:
    """Return "«exception» in «module:function» (n tests)"."""
    place = get_location(failure.frames)
    where = f"{place.module}:{place.function}".rstrip(":") if place else _find_common_place(tests)
    vague = failure.embedded or (get_statement(failure.message) if is_generic(failure.exception) else "")
    said = f": {shorten_text(vague, 60)}" if vague else ""
    title = f"{before}{failure.exception}{said} in {where} ({_count(len(tests), 'test')})"
    return shorten_text(" ".join(title.split()), _TITLE_CHARACTERS)


def _find_common_place(tests: Sequence[str]) -> str:
    """Return the test, its file, or the folder that all tests have in common."""
    if len(tests) == 1:
        return tests[0].partition("[")[0]
    functions = {test.partition("[")[0].rpartition("::")[2] for test in tests}
    places = [test.partition("::")[0].split("/") for test in tests]
    common = []
    for parts in zip(*places, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    file = "/".join(common)
    if len(functions) == 1:
        return f"{file}::{functions.pop()}" if file.endswith(".py") else functions.pop()
    return file or "several modules"


def _write_scope(failure: TestFailure) -> str:
    place = get_location(failure.frames)
    name = place.module if place else ""
    try:
        return normalize_scope(f"module:{name}") if 0 < len(name) < SCOPE_CHARACTERS - 10 else ""
    except ValueError:
        return ""


def _write_statement(first: FailureOccurrence, verb: str, value: str) -> LearnedStatement:
    place = get_location(first.failure.frames)
    subject = f"{place.module}:{place.function}" if place else first.failure.test
    return LearnedStatement(
        subject=shorten_text(subject, _SUBJECT_CHARACTERS), predicate=_write_predicate(verb, first), value=value[:2_000]
    )


def _write_predicate(verb: str, first: FailureOccurrence) -> str:
    digest = blake2b(get_signature(first.failure).message.encode(errors="replace"), digest_size=4).hexdigest()
    return f"{verb}:{first.failure.exception}:{digest}"


def _choose_quotes(occurrences: Iterable[FailureOccurrence]) -> tuple[EvidenceQuote, ...]:
    """Return quotes of the first failures of different tests and runs."""
    chosen: dict[tuple[str, int], EvidenceQuote] = {}
    for occurrence in sorted(occurrences, key=lambda occurrence: (occurrence.run, occurrence.failure.test)):
        failure = occurrence.failure
        if len(chosen) == _QUOTES:
            break
        quote = EvidenceQuote(file=failure.file, line=failure.line, quote=failure.quote)
        chosen.setdefault((failure.file, failure.line), quote)
    return tuple(chosen.values())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
