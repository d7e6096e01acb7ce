"""Run lists, and the joining of reports that are of one run."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from pydantic import Field, TypeAdapter, ValidationError

from skillbus.contracts.message import Message
from skillbus.learning.redaction import redact_commit, redact_text
from skillbus.learning.test_runs.builder import parse_time
from skillbus.learning.test_runs.values import TestRun, UnreadableRunError, decode_keys, encode_keys

_LIST_CHARACTERS: Final = 4 * 1024 * 1024
_NUMBER: Final = re.compile(r"(\d+)")


class ListedRun(Message):
    """Entry of a run list: what a report itself does not tell."""

    run: str = Field(min_length=1, max_length=300)
    """Id of the run. It is the name of its files, without their endings."""
    commit: str = Field(default="", max_length=200)
    started: str = Field(default="", max_length=100)
    branch: str = Field(default="", max_length=200)
    subject: str = Field(default="", max_length=500)
    """First line of the commit's message."""


_RUN_LIST: Final = TypeAdapter(tuple[ListedRun, ...])


@dataclass(frozen=True, slots=True)
class JoinedRuns:
    """Runs in the order of time, and the files that contradict another one."""

    runs: tuple[TestRun, ...]
    errors: Mapping[str, str]
    """Error of each file that was left out."""


def read_run_list(text: str) -> tuple[ListedRun, ...]:
    """Return the entries of a run list: JSON objects with `run`, `commit`, `started`, `branch`.

    Raises UnreadableRunError.
    """
    try:
        return _RUN_LIST.validate_python(json.loads(text[:_LIST_CHARACTERS].lstrip("\ufeff")))
    except (ValueError, ValidationError, RecursionError) as error:
        raise UnreadableRunError("The run list is no JSON list of objects with `run`.") from error


def join_runs(reports: Iterable[TestRun], listed: Sequence[ListedRun] = ()) -> JoinedRuns:
    """Return the runs of reports. Reports of one run are joined if they agree, or have no test in common.

    A report of a run whose id another report with other results has is an error of its file, if the id was given or
    if nothing tells the two apart.
    """
    entries = {entry.run: entry for entry in listed}
    joined: dict[str, TestRun] = {}
    errors: dict[str, str] = {}
    for place, report in enumerate(sorted(reports, key=lambda report: (_sort_by_number(report.run), report.files))):
        run = _apply_entry(report, entries)
        held = joined.get(run.run)
        if held is None:
            joined[run.run] = run
        elif (both := _join(held, run)) is not None:
            joined[run.run] = both
        elif not run.named and not held.named and run.started != held.started:
            joined[f"{run.run}@{run.started or place}"] = run.model_copy(
                update={"run": f"{run.run}@{run.started or place}"}
            )
        else:
            errors |= dict.fromkeys(run.files, f"The run {run.run} was read before, with other results.")
    return JoinedRuns(_sort_by_time(list(joined.values())), errors)


def _apply_entry(run: TestRun, entries: Mapping[str, ListedRun]) -> TestRun:
    entry = entries.get(run.run) or entries.get(PurePosixPath(run.run.rpartition("!")[2]).name)
    if entry is None:
        return run
    return run.model_copy(
        update={
            "run": entry.run,
            "named": True,
            "commit": redact_commit(entry.commit) or run.commit,
            "started": parse_time(entry.started) or run.started,
            "branch": redact_text(entry.branch) or run.branch,
            "subject": redact_text(entry.subject),
        }
    )


def _join(first: TestRun, second: TestRun) -> TestRun | None:
    """Return the run that two reports describe; None if they contradict each other."""
    passed, failed = (set(decode_keys(first.passed)), set(decode_keys(first.failed)))
    other_passed, other_failed = (set(decode_keys(second.passed)), set(decode_keys(second.failed)))
    same_tests = (passed | failed) & (other_passed | other_failed)
    if {key for key in same_tests if (key in passed, key in failed) != (key in other_passed, key in other_failed)}:
        return None
    detailed, plain = sorted((first, second), key=lambda run: (-len(run.failures), run.format))
    if same_tests or not (detailed.cases and plain.cases):
        failures, skipped, cases = detailed.failures, detailed.skipped or plain.skipped, max(first.cases, second.cases)
    else:
        failures, skipped = first.failures + second.failures, first.skipped + second.skipped
        cases = first.cases + second.cases
    return first.model_copy(
        update={
            "files": tuple(dict.fromkeys(first.files + second.files)),
            "format": ",".join(sorted({first.format, second.format})),
            "commit": first.commit or second.commit,
            "branch": first.branch or second.branch,
            "started": min(filter(None, (first.started, second.started)), default=""),
            "cases": cases,
            "passed": encode_keys(passed | other_passed),
            "failed": encode_keys(failed | other_failed),
            "failures": failures,
            "skipped": skipped,
        }
    )


def _sort_by_time(runs: Sequence[TestRun]) -> tuple[TestRun, ...]:
    """Return the runs in the order of time. Runs without a time keep their place, which is that of their name."""
    timed = iter(sorted((run for run in runs if run.started), key=lambda run: run.started))
    return tuple(next(timed) if run.started else run for run in runs)


def _sort_by_number(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key in which `run9` comes before `run10`."""
    parts = _NUMBER.split(name)
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)
