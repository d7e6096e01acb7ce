"""Clusters: failures of all runs that have one cause.

Failures with one signature are together. Then clusters of one type of exception are joined while their average
similarity is high enough: half by their frames, half by their messages (cosine of inverse document frequencies).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log, sqrt
from typing import Final

from skillbus.learning.test_runs.failures.frames import EXTERNAL
from skillbus.learning.test_runs.failures.signatures import FailureSignature, get_location, get_signature
from skillbus.learning.test_runs.settings import TestSettings
from skillbus.learning.test_runs.values import TestFailure

_TOKEN: Final = re.compile(r"\w+|<\w+>|[=!<>]=?")


@dataclass(slots=True)
class FailureOccurrence:
    """Failure of one test in one run."""

    run: int
    """Place of the run in the history."""
    key: int
    failure: TestFailure


@dataclass(slots=True)
class FailureCluster:
    """Failures with one cause."""

    signatures: list[FailureSignature]
    occurrences: list[FailureOccurrence] = field(default_factory=list)

    @property
    def first_run(self) -> int:
        """Place of the first run that has the cause."""
        return min(occurrence.run for occurrence in self.occurrences)

    @property
    def keys(self) -> set[int]:
        """Keys of the tests that failed."""
        return {occurrence.key for occurrence in self.occurrences}

    def absorb(self, other: "FailureCluster") -> None:
        """Add the failures of another cluster."""
        self.signatures += other.signatures
        self.occurrences += other.occurrences


def cluster_failures(occurrences: Iterable[FailureOccurrence], settings: TestSettings) -> list[FailureCluster]:
    """Return the clusters of failures, the largest first."""
    by_signature: dict[FailureSignature, FailureCluster] = {}
    for occurrence in occurrences:
        signature = get_signature(occurrence.failure)
        by_signature.setdefault(signature, FailureCluster([signature])).occurrences.append(occurrence)
    exact = sorted(by_signature.values(), key=lambda cluster: (-len(cluster.occurrences), cluster.signatures[0]))
    compared, rest = exact[: settings.max_signatures], exact[settings.max_signatures :]
    by_exception: dict[str, list[FailureCluster]] = defaultdict(list)
    for cluster in compared:
        by_exception[cluster.signatures[0].exception].append(cluster)
    weights = _weigh_tokens(compared)
    joined = [cluster for same in by_exception.values() for cluster in _join_similar(same, weights, settings)]
    return sorted([*joined, *rest], key=lambda cluster: (-len(cluster.occurrences), cluster.signatures[0]))


def join_same_change(clusters: Sequence[FailureCluster], passed_before: Mapping[int, int]) -> list[FailureCluster]:
    """Join clusters whose cause is in one file and came with one change.

    `passed_before` gives the first run of each test that passed. A change is the first run of a cluster whose tests
    had passed before.
    """
    by_change: dict[tuple[int, str], FailureCluster] = {}
    result: list[FailureCluster] = []
    for cluster in clusters:
        first, location = cluster.first_run, get_location(cluster.occurrences[0].failure.frames)
        broken = any(passed_before.get(key, first) < first for key in cluster.keys)
        if location is None or not broken:
            result.append(cluster)
        elif held := by_change.get((first, location.module)):
            held.absorb(cluster)
        else:
            by_change[first, location.module] = cluster
            result.append(cluster)
    return result


def _join_similar(
    clusters: list[FailureCluster], weights: Mapping[str, float], settings: TestSettings
) -> list[FailureCluster]:
    """Join clusters by average linkage: the most similar pair first, until none is similar enough."""
    groups: dict[int, FailureCluster] = dict(enumerate(clusters))
    sizes = dict.fromkeys(groups, 1)
    frames = [_list_places(cluster) for cluster in clusters]
    messages = [_make_vector(cluster.signatures[0].message, weights) for cluster in clusters]
    similar = {
        (first, second): (_get_overlap(frames[first], frames[second]) + _get_cosine(messages[first], messages[second]))
        / 2
        for first in groups
        for second in groups
        if first < second
    }
    while similar:
        pair = max(similar, key=lambda pair: (similar[pair], -pair[0], -pair[1]))
        if similar[pair] < settings.similarity:
            break
        kept, gone = pair
        groups[kept].absorb(groups.pop(gone))
        for other in groups:
            if other != kept:
                mine, theirs = (min(kept, other), max(kept, other)), (min(gone, other), max(gone, other))
                total = sizes[kept] * similar[mine] + sizes[gone] * similar[theirs]
                similar[mine] = total / (sizes[kept] + sizes[gone])
        sizes[kept] += sizes.pop(gone)
        similar = {both: value for both, value in similar.items() if gone not in both}
    return list(groups.values())


def _list_places(cluster: FailureCluster) -> set[str]:
    frames = cluster.occurrences[0].failure.frames
    named = (frame for frame in frames if frame.place != EXTERNAL and frame.function and "<" not in frame.function)
    return {f"{frame.module}:{frame.function}" for frame in named}


def _weigh_tokens(clusters: Sequence[FailureCluster]) -> dict[str, float]:
    """Return the inverse document frequency of each word of the messages."""
    documents = [set(_TOKEN.findall(cluster.signatures[0].message.lower())) for cluster in clusters]
    counts = Counter(token for tokens in documents for token in tokens)
    return {token: 1.0 + log(len(documents) / count) for token, count in counts.items()}


def _make_vector(message: str, weights: Mapping[str, float]) -> dict[str, float]:
    counts = Counter(_TOKEN.findall(message.lower()))
    vector = {token: count * weights[token] for token, count in counts.items()}
    length = sqrt(sum(value * value for value in vector.values())) or 1.0
    return {token: value / length for token, value in vector.items()}


def _get_overlap(first: set[str], second: set[str]) -> float:
    return len(first & second) / len(first | second) if first and second else 0.0


def _get_cosine(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    return sum(value * second.get(token, 0.0) for token, value in first.items())
