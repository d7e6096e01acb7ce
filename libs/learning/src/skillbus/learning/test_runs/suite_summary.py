"""Summary of a test suite for reports: its runs in numbers, and the results of the tests that findings are about."""

from array import array
from collections.abc import Iterator
from typing import Final

from skillbus.contracts.learner.learned import LearnedKind, LearnedSuite, SuiteOutcome, SuiteRun, SuiteTest
from skillbus.learning.redaction import redact_path
from skillbus.learning.test_runs.learning import RunFindings
from skillbus.learning.test_runs.values import TestRun, decode_keys, get_test_key, has_key

_MOST_TESTS: Final = 50
_CHARACTERS: Final = 300
_TEST_CHARACTERS: Final = 1_000
_FLAKY_FIRST: Final = (LearnedKind.FLAKY, LearnedKind.REGRESSION, LearnedKind.PREEXISTING, LearnedKind.ENVIRONMENT)


def summarize_suite(folder: str, found: RunFindings) -> LearnedSuite:
    """Return the runs of a suite, oldest first, and up to 50 tests of its findings with their result in each run."""
    results = [_RunResults(run) for run in found.runs]
    runs = tuple(result.describe(is_set_aside=result.run.run in found.set_aside) for result in results)
    tests = list[SuiteTest]()
    for test, kind in _iterate_tests(found):
        if len(tests) == _MOST_TESTS:
            break
        key = get_test_key(test)
        outcomes = tuple(result.get_outcome(key) for result in results)
        # The id of a test is redacted: then its results cannot be told from those of others.
        if any(outcome is not SuiteOutcome.ABSENT for outcome in outcomes):
            tests.append(SuiteTest(test=test[:_TEST_CHARACTERS], kind=kind, outcomes=outcomes))
    return LearnedSuite(folder=redact_path(folder)[:_CHARACTERS], runs=runs, tests=tuple(tests))


class _RunResults:
    """Results of a run by the key of a test."""

    def __init__(self, run: TestRun) -> None:
        self.run = run
        self._passed, self._failed = decode_keys(run.passed), decode_keys(run.failed)
        self._skipped: list[array[int]] = [decode_keys(skipped.keys) for skipped in run.skipped]

    def describe(self, *, is_set_aside: bool) -> SuiteRun:
        """Return the run in numbers."""
        failed = set(self._failed)
        return SuiteRun(
            run=self.run.run[:_CHARACTERS],
            commit=self.run.commit[:_CHARACTERS],
            branch=self.run.branch[:_CHARACTERS],
            started=self.run.started[:_CHARACTERS],
            passed=len(self._passed) - sum(key in failed for key in self._passed),
            failed=len(failed),
            skipped=sum(len(keys) for keys in self._skipped),
            is_set_aside=is_set_aside,
        )

    def get_outcome(self, key: int) -> SuiteOutcome:
        """Return the result of a test."""
        passed, failed = has_key(self._passed, key), has_key(self._failed, key)
        if failed:
            return SuiteOutcome.BOTH if passed else SuiteOutcome.FAILED
        if passed:
            return SuiteOutcome.PASSED
        return SuiteOutcome.SKIPPED if any(has_key(keys, key) for keys in self._skipped) else SuiteOutcome.ABSENT


def _iterate_tests(found: RunFindings) -> Iterator[tuple[str, LearnedKind]]:
    """Yield each test of the items once, those of flaky ones first."""
    seen = set[str]()
    for kind in _FLAKY_FIRST:
        for test in (test for item in found.items if item.kind is kind for test in item.tests):
            if test not in seen:
                seen.add(test)
                yield test, kind
