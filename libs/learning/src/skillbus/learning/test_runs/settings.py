"""Thresholds of learning from test runs."""

from pydantic import Field

from skillbus.learning.thresholds import Thresholds


class TestSettings(Thresholds):
    """Thresholds of clusters, flaky tests and runs that are set aside."""

    __test__ = False

    similarity: float = Field(default=0.6, ge=0.0, le=1.0)
    """Least average similarity of failures with one cause: half by their frames, half by their messages."""
    max_signatures: int = Field(default=200, ge=1)
    """Most signatures that are compared with one another. Further ones are clusters of their own."""
    infrastructure_share: float = Field(default=0.8, ge=0.0, le=1.0)
    """A run is set aside if a greater share of its tests failed, by one cause or after they passed in other runs."""
    min_cases: int = Field(default=10, ge=1)
    """Fewest tests of a run that is set aside for its share of failures."""
    storm_cases: int = Field(default=10, ge=1)
    """Fewest tests that were skipped for one reason, and ran in another run, to count as an environment's fault."""
    storm_share: float = Field(default=0.1, ge=0.0, le=1.0)
    """Least share of a run's tests that are skipped so, for its new failures to count as the environment's too."""
    flaky_share: float = Field(default=0.5, ge=0.0, le=1.0)
    """Least share of a cluster's tests that must pass and fail on one commit, for the whole cluster to be flaky."""
    max_runs: int = Field(default=50, ge=1)
    """Most runs that are analyzed: the latest ones."""
    max_tests: int = Field(default=200, ge=1)
    """Most tests that an item lists."""
