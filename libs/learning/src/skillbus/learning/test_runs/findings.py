"""Findings about a history: flaky tests, causes with their fixes, and faults of the environment.

A test is flaky if it passed and failed on one commit. A cause is fixed if its tests pass on a later commit; tests that
are skipped, missing, or fail with a newer cause in its place are not fixed.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from skillbus.learning.test_runs.clusters import (
    FailureCluster,
    FailureOccurrence,
    cluster_failures,
    join_same_change,
)
from skillbus.learning.test_runs.failures.frames import EXTERNAL
from skillbus.learning.test_runs.failures.signatures import get_location
from skillbus.learning.test_runs.history import BOTH, FAILED, PASSED, SkipStorm, SuiteHistory
from skillbus.learning.test_runs.settings import TestSettings
from skillbus.learning.test_runs.values import COLLECTION

_MODULE: Final = re.compile(r"No module named '?(?P<name>[\w.]+)")
_OUTSIDE: Final = re.compile(
    r"Connection\w*Error|ConnectError|ConnectTimeout|OperationalError|PermissionError|TimeoutError|OSError|IOError|"
    r"UnknownHostException|ConnectException|NoClassDefFoundError|ClassNotFoundException|UsageError|MissingDependency\w*"
)


@dataclass(slots=True)
class FlakyFinding:
    """Tests that passed and failed on one commit, with one cause."""

    cluster: FailureCluster
    keys: set[int]
    flips: int
    """Number of runs and tests with the other outcome on the same commit."""


@dataclass(slots=True)
class CauseFinding:
    """Cause of failures, and how far it is fixed."""

    cluster: FailureCluster
    ever_passed: bool
    """True if one of the tests passed in some run."""
    fixed: dict[int, int] = field(default_factory=dict)
    """By test, the first run in which it passed after its last failure."""
    masked: dict[int, int] = field(default_factory=dict)
    """By test, the run since which it fails with a newer cause."""
    open: set[int] = field(default_factory=set)
    """Tests whose last known result is this failure."""
    passes_between: int = 0
    """Passes between the first failure and the last one."""

    @property
    def is_fixed(self) -> bool:
        """True if all tests that still run pass."""
        return bool(self.fixed) and not self.open and not self.masked


@dataclass(slots=True)
class EnvironmentFinding:
    """Fault of the environment of a run."""

    cluster: FailureCluster
    module: str = ""
    """Module that was missing; empty if it was something else."""


@dataclass(slots=True)
class HistoryFindings:
    """Findings about a history."""

    flaky: list[FlakyFinding]
    causes: list[CauseFinding]
    environment: list[EnvironmentFinding]
    storms: list[SkipStorm]


def find_causes(history: SuiteHistory, settings: TestSettings) -> HistoryFindings:
    """Return the findings about a history."""
    clusters = cluster_failures(history.occurrences, settings)
    flaky, steady = _split_flaky(clusters, history, settings)
    first_passes = {key: run for key in history.states if (run := history.find_first_pass(key)) is not None}
    steady = _join_same_tests(join_same_change(steady, first_passes))
    episodes = [episode for cluster in steady for episode in _split_episodes(cluster, history)]
    causes = [_follow_cause(episode, episodes, history) for episode in episodes]
    project = _list_project_modules(history)
    missing = [finding for finding in causes if _find_missing_module(finding.cluster, project)]
    environment, broken = _sort_broken(cluster_failures(history.broken, settings), history, project)
    environment += [EnvironmentFinding(same.cluster, _find_missing_module(same.cluster, project)) for same in missing]
    return HistoryFindings(
        flaky, [finding for finding in causes if finding not in missing] + broken, environment, history.storms
    )


def _split_flaky(
    clusters: Iterable[FailureCluster], history: SuiteHistory, settings: TestSettings
) -> tuple[list[FlakyFinding], list[FailureCluster]]:
    flaky: dict[frozenset[int], FlakyFinding] = {}
    steady: list[FailureCluster] = []
    for cluster in clusters:
        flips = _count_flips(cluster, history)
        if not flips:
            steady.append(cluster)
            continue
        whole = len(flips) >= settings.flaky_share * len(cluster.keys)
        mine = [occurrence for occurrence in cluster.occurrences if whole or occurrence.key in flips]
        rest = [occurrence for occurrence in cluster.occurrences if not whole and occurrence.key not in flips]
        finding = FlakyFinding(FailureCluster(list(cluster.signatures), mine), set(flips), sum(flips.values()))
        if held := flaky.get(frozenset(flips)):
            held.cluster.absorb(finding.cluster)
            held.flips = max(held.flips, finding.flips)
        else:
            flaky[frozenset(flips)] = finding
        if rest:
            steady.append(FailureCluster(cluster.signatures, rest))
    return list(flaky.values()), steady


def _count_flips(cluster: FailureCluster, history: SuiteHistory) -> dict[int, int]:
    """Return, for each flaky test of a cluster, how often it passed on a commit on which it failed."""
    flips: dict[int, int] = defaultdict(int)
    for key in cluster.keys:
        states = history.states.get(key, {})
        failed = {occurrence.run for occurrence in cluster.occurrences if occurrence.key == key}
        commits = {history.runs[run].commit for run in failed} - {""}
        for run, state in states.items():
            if (state == BOTH and run in failed) or (state in {PASSED, BOTH} and history.runs[run].commit in commits):
                flips[key] += 1
    return dict(flips)


def _join_same_tests(clusters: Iterable[FailureCluster]) -> list[FailureCluster]:
    """Join clusters of the same tests in the same runs: attempts of one test that failed in several ways."""
    joined: dict[tuple[frozenset[int], frozenset[int]], FailureCluster] = {}
    for cluster in clusters:
        key = (frozenset(cluster.keys), frozenset(occurrence.run for occurrence in cluster.occurrences))
        if key in joined:
            joined[key].absorb(cluster)
        else:
            joined[key] = cluster
    return list(joined.values())


def _split_episodes(cluster: FailureCluster, history: SuiteHistory) -> list[FailureCluster]:
    """Split a cluster without a place in the project where a run without it lies between, unless tests are the same.

    A message alone, such as a reset connection, may have another cause in another test months later.
    """
    if get_location(cluster.occurrences[0].failure.frames) is not None:
        return [cluster]
    by_run: dict[int, list[FailureOccurrence]] = defaultdict(list)
    for occurrence in cluster.occurrences:
        by_run[occurrence.run].append(occurrence)
    episodes: list[list[FailureOccurrence]] = []
    last = -1
    for run in sorted(by_run):
        between = [place for place in range(last + 1, run) if place not in history.set_aside]
        if not episodes or between:
            episodes.append([])
        episodes[-1] += by_run[run]
        last = run
    merged: list[FailureCluster] = []
    for episode in episodes:
        new = FailureCluster(list(cluster.signatures), episode)
        same = [held for held in merged if held.keys & new.keys]
        for held in same:
            merged.remove(held)
            held.absorb(new)
            new = FailureCluster(list(cluster.signatures), held.occurrences)
        merged.append(new)
    return merged


def _follow_cause(cluster: FailureCluster, clusters: Sequence[FailureCluster], history: SuiteHistory) -> CauseFinding:
    """Follow each test of a cause to its last known result."""
    finding = CauseFinding(cluster, any(history.find_first_pass(key) is not None for key in cluster.keys))
    ages: dict[tuple[int, int], int] = {}
    for other in clusters:
        if other is not cluster:
            for occurrence in other.occurrences:
                place = (occurrence.key, occurrence.run)
                ages[place] = max(ages.get(place, 0), other.first_run)
    last_run = max(set(range(len(history.runs))) - history.set_aside)
    for key in cluster.keys:
        runs = [occurrence.run for occurrence in cluster.occurrences if occurrence.key == key]
        states = history.states.get(key, {})
        finding.passes_between += sum(state == PASSED and min(runs) < run < max(runs) for run, state in states.items())
        if max(runs) == last_run:
            finding.open.add(key)
        for run in sorted(run for run in states if run > max(runs)):
            if states[run] == PASSED and _is_other(history, run, max(runs)):
                finding.fixed[key] = run
                finding.masked.pop(key, None)
                break
            if states[run] == FAILED and ages.get((key, run), 0) > cluster.first_run:
                finding.masked.setdefault(key, run)
            elif states[run] == FAILED:
                break  # An older cause shows again: this one is gone, and nothing tells since when.
    return finding


def _is_other(history: SuiteHistory, run: int, than: int) -> bool:
    """Return True if two runs are not of the same commit."""
    return not history.runs[run].commit or history.runs[run].commit != history.runs[than].commit


def _sort_broken(
    clusters: Iterable[FailureCluster], history: SuiteHistory, project: Collection[str]
) -> tuple[list[EnvironmentFinding], list[CauseFinding]]:
    """Return the faults of environments, and the faults of code that kept tests from being collected."""
    environment: list[EnvironmentFinding] = []
    broken: list[CauseFinding] = []
    for cluster in clusters:
        failure = cluster.occurrences[0].failure
        collected = all(occurrence.failure.stage == COLLECTION for occurrence in cluster.occurrences)
        module = _find_missing_module(cluster, project)
        if module or not collected or _OUTSIDE.fullmatch(failure.exception):
            environment.append(EnvironmentFinding(cluster, module))
        else:
            broken.append(_follow_collection(cluster, history))
    return environment, broken


def _find_missing_module(cluster: FailureCluster, project: Collection[str]) -> str:
    """Return the module outside the project that a cluster's failures miss; empty if it is another cause."""
    failure = cluster.occurrences[0].failure
    match = _MODULE.search(failure.message) if failure.exception in {"ModuleNotFoundError", "ImportError"} else None
    return match["name"] if match and match["name"].partition(".")[0] not in project else ""


def _follow_collection(cluster: FailureCluster, history: SuiteHistory) -> CauseFinding:
    """Return a fault of code that is fixed when a run of a later commit is complete again."""
    last = max(occurrence.run for occurrence in cluster.occurrences)
    usable = [run for run in range(len(history.runs)) if run not in history.set_aside]
    finding = CauseFinding(cluster, any(run < cluster.first_run for run in usable))
    later = next((run for run in usable if run > last and _is_other(history, run, last)), None)
    if later is None:
        finding.open = cluster.keys
    else:
        finding.fixed, finding.ever_passed = dict.fromkeys(cluster.keys, later), True
    return finding


def _list_project_modules(history: SuiteHistory) -> set[str]:
    """Return the names of the project's packages, as frames and tests show them."""
    failures = [occurrence.failure for occurrence in (*history.occurrences, *history.broken)]
    names = {failure.test.split("::")[0].split("/")[0].split(".")[0] for failure in failures}
    frames = (frame for failure in failures for frame in failure.frames)
    return names | {frame.module.partition(".")[0] for frame in frames if frame.place != EXTERNAL}
