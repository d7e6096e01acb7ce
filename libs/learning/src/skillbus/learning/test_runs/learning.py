"""Learning from test runs: causes of failures and their fixes, flaky tests, faults of the environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillbus.contracts.learner.learned import LearnedItem
from skillbus.learning.test_runs.findings import find_causes
from skillbus.learning.test_runs.history import make_history
from skillbus.learning.test_runs.items import write_cause, write_environment, write_flaky, write_storms
from skillbus.learning.test_runs.joining import ListedRun, join_runs
from skillbus.learning.test_runs.settings import TestSettings
from skillbus.learning.test_runs.values import TestRun


@dataclass(frozen=True, slots=True)
class RunFindings:
    """Findings about the runs of a test suite."""

    runs: tuple[TestRun, ...]
    """Runs in the order of time, with what their run list says. These are what a history keeps."""
    set_aside: tuple[str, ...]
    """Ids of the runs that failed for their environment."""
    errors: Mapping[str, str]
    """Error of each file whose run contradicts another one."""
    items: tuple[LearnedItem, ...]


def learn_from_runs(runs: Sequence[TestRun], settings: TestSettings, listed: Sequence[ListedRun] = ()) -> RunFindings:
    """Return the findings about the runs of a suite: those of its history, and new ones.

    `listed` are the entries of a run list. The same runs in any order give the same items.
    """
    joined = join_runs(runs, listed)
    kept = joined.runs[-settings.max_runs :]
    history = make_history(kept, settings)
    if not kept:
        return RunFindings((), (), joined.errors, ())
    found = find_causes(history, settings)
    items = [
        *(write_cause(finding, history, settings) for finding in found.causes),
        *(write_flaky(finding, history, settings) for finding in found.flaky),
        *(write_environment(finding, history, settings) for finding in found.environment),
        *write_storms(found.storms, history),
    ]
    items.sort(key=lambda item: (item.kind.value, item.statement.subject, item.statement.predicate, item.tests))
    set_aside = tuple(kept[place].run for place in sorted(history.set_aside))
    return RunFindings(kept, set_aside, joined.errors, tuple(items))
