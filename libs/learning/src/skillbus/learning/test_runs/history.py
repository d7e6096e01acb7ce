"""History of a test suite: which tests passed and failed in which run."""

from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from skillbus.learning.test_runs.clusters import FailureOccurrence
from skillbus.learning.test_runs.failures.signatures import get_signature
from skillbus.learning.test_runs.settings import TestSettings
from skillbus.learning.test_runs.values import COLLECTION, SkippedTests, TestRun, decode_keys, has_key

PASSED: Final = "passed"
FAILED: Final = "failed"
BOTH: Final = "both"


@dataclass(slots=True)
class SkipStorm:
    """Many tests that were skipped in a run for one reason and ran in others."""

    run: int
    skipped: SkippedTests
    count: int


@dataclass(slots=True)
class SuiteHistory:
    """Runs of a suite in the order of time."""

    runs: Sequence[TestRun]
    set_aside: set[int] = field(default_factory=set)
    """Places of the runs that failed for their environment."""
    states: dict[int, dict[int, str]] = field(default_factory=dict)
    """By test and run: passed, failed or both. Only tests that failed somewhere, and runs that were not set aside."""
    occurrences: list[FailureOccurrence] = field(default_factory=list)
    """Failures of the runs that were not set aside."""
    broken: list[FailureOccurrence] = field(default_factory=list)
    """Failures of the runs that were set aside."""
    storms: list[SkipStorm] = field(default_factory=list)

    def get_change(self, run: int) -> str:
        """Return the commit of a run, or else its id."""
        return self.runs[run].commit or self.runs[run].run

    def find_first_pass(self, key: int) -> int | None:
        """Return the first run in which a test passed."""
        states = self.states.get(key, {})
        return min((run for run, state in states.items() if state in {PASSED, BOTH}), default=None)


def make_history(runs: Sequence[TestRun], settings: TestSettings) -> SuiteHistory:
    """Return the history of runs in the order of time."""
    history = SuiteHistory(runs)
    suspects = {failure.key for run in runs for failure in run.failures}
    passed_somewhere = set()
    for run in runs:
        passed = decode_keys(run.passed)
        passed_somewhere |= {key for key in suspects if has_key(passed, key)}
    for place, run in enumerate(runs):
        if _is_infrastructure(run, passed_somewhere, settings):
            history.set_aside.add(place)
    states: dict[int, dict[int, str]] = defaultdict(dict)
    for place, run in enumerate(runs):
        occurrences = [FailureOccurrence(place, failure.key, failure) for failure in run.failures]
        if place in history.set_aside:
            history.broken += occurrences
            continue
        history.occurrences += occurrences
        passed, failed = decode_keys(run.passed), decode_keys(run.failed)
        for key in suspects:
            if has_key(failed, key):
                states[key][place] = BOTH if has_key(passed, key) else FAILED
            elif has_key(passed, key):
                states[key][place] = PASSED
    history.states = dict(states)
    history.storms = _find_storms(history, settings)
    _set_storm_failures_aside(history, settings)
    return history


def _set_storm_failures_aside(history: SuiteHistory, settings: TestSettings) -> None:
    """Set the failures aside that only runs with a large storm have: what was missing there made them fail too."""
    stormy = {
        storm.run
        for storm in history.storms
        if storm.count >= settings.storm_share * max(history.runs[storm.run].cases, 1)
    }
    steady = {(found.key, get_signature(found.failure)) for found in history.occurrences if found.run not in stormy}
    kept = []
    for found in history.occurrences:
        if found.run in stormy and (found.key, get_signature(found.failure)) not in steady:
            history.broken.append(found)
            history.states[found.key].pop(found.run, None)
        else:
            kept.append(found)
    history.occurrences = kept


def _is_infrastructure(run: TestRun, passed_somewhere: set[int], settings: TestSettings) -> bool:
    """Return True for a run without results about the code: the collection failed, or nearly all tests did."""
    if any(failure.stage == COLLECTION for failure in run.failures):
        return True
    failed = decode_keys(run.failed)
    tests = len(set(failed) | set(decode_keys(run.passed)))
    if tests < settings.min_cases or len(failed) <= settings.infrastructure_share * tests:
        return False
    known = {key for key in failed if key in passed_somewhere}
    signatures = {get_signature(failure) for failure in run.failures}
    return len(signatures) == 1 or len(known) > settings.infrastructure_share * len(failed)


def _find_storms(history: SuiteHistory, settings: TestSettings) -> list[SkipStorm]:
    """Return the skips that tell of the environment: many for one reason, of tests that passed in another run."""
    groups = [
        (place, skipped, decode_keys(skipped.keys))
        for place, run in enumerate(history.runs)
        for skipped in run.skipped
        if place not in history.set_aside
    ]
    large = [(place, skipped, keys) for place, skipped, keys in groups if len(keys) >= settings.storm_cases]
    if not large:
        return []
    ran = [decode_keys(run.passed) for run in history.runs]
    storms = []
    for place, skipped, keys in large:
        elsewhere = sum(_ran_elsewhere(key, place, ran) for key in keys)
        if elsewhere >= max(settings.storm_cases, len(keys) / 2):
            storms.append(SkipStorm(place, skipped, len(keys)))
    return storms


def _ran_elsewhere(key: int, place: int, ran: Sequence["array[int]"]) -> bool:
    return any(other != place and has_key(keys, key) for other, keys in enumerate(ran))
