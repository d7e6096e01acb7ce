"""What is remembered of runs, and the port to where it is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from skillbus.contracts.sandbox.run_history import ListRuns, RunFile, RunRecord, RunSelector, RunsListed, RunState
from skillbus.contracts.sandbox.skill_runs import RunUsage
from skillbus.sandbox.domain.errors import RunUnknown
from skillbus.sandbox.domain.run.spec import RunOutcome

PAGE_BYTES: Final = 512 * 1024
"""Of a page of records: with what is around it, it fits NATS's 1 MiB."""
_SCANNED: Final = 20
"""Portions of the history that are looked through for one page."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Some of the history, the newest first."""

    records: Sequence[tuple[int, RunRecord]]
    """Each with its place, which is higher the newer it is."""
    before: int | None
    """Where to go on: at what is older than this; None at the end."""


class History(Protocol):
    """Records of runs, for a day."""

    async def begin(self, record: RunRecord, *, chosen: bool) -> None:
        """Remember a run that goes on. `chosen` says that its id came from outside, and may not be new.

        Raises:
            RunKnown: There is a run of that id.
            RequestError: It is chosen, and cannot be looked up.
        """
        ...

    async def end(self, record: RunRecord) -> None:
        """Remember how a run ended. Raises RequestError when it cannot be written."""
        ...

    async def get(self, run_id: str) -> RunRecord | None:
        """One run of any project."""
        ...

    async def portion(self, before: int | None) -> Portion:
        """The next records of all projects that are older than `before`, or the newest."""
        ...


def ended_record(record: RunRecord, outcome: RunOutcome, waited_ms: float) -> RunRecord:
    """The record of a run that ended."""
    sizes = [RunFile(name=artifact.name, size_bytes=len(artifact.content)) for artifact in outcome.artifacts]
    return record.model_copy(
        update={
            "state": RunState(outcome.status),
            "exit_code": outcome.exit_code,
            "isolation": outcome.level.value,
            "truncated": outcome.truncated,
            "detail": outcome.detail,
            "artifacts": tuple(sizes),
            "used": usage_of(outcome, waited_ms),
        }
    )


def usage_of(outcome: RunOutcome, waited_ms: float) -> RunUsage:
    """What a run used."""
    return RunUsage(
        waited_ms=waited_ms,
        wall_ms=outcome.duration_ms,
        cpu_ms=outcome.cpu_ms,
        peak_bytes=outcome.peak_bytes,
        output_bytes=len(outcome.stdout) + len(outcome.stderr),
        artifacts=len(outcome.artifacts),
        artifacts_bytes=sum(len(artifact.content) for artifact in outcome.artifacts),
    )


async def find_run(history: History, wanted: RunSelector, now: datetime) -> RunRecord:
    """One run of a project.

    Raises:
        RunUnknown: There is none, or it is another project's.
    """
    record = await history.get(wanted.run_id)
    if record is None or record.project != wanted.project:
        raise RunUnknown(f"there is no run {wanted.run_id}: runs are remembered for a day")
    return as_of(record, now)


async def list_runs(history: History, wanted: ListRuns, now: datetime) -> RunsListed:
    """A page of a project's runs. One may have fewer than asked for and more behind it: not all is read at once."""
    found = list[RunRecord]()
    left_bytes = PAGE_BYTES
    before = None if wanted.after is None else int(wanted.after)
    for _ in range(_SCANNED):
        portion = await history.portion(before)
        for place, written in portion.records:
            record = as_of(written, now)
            if not _fits(record, wanted):
                continue
            left_bytes -= len(record.model_dump_json().encode())
            if len(found) == wanted.limit or (found and left_bytes < 0):
                return RunsListed(runs=tuple(found), next=str(place + 1))
            found.append(record)
        before = portion.before
        if before is None:
            break
    return RunsListed(runs=tuple(found), next=None if before is None else str(before))


def as_of(record: RunRecord, now: datetime) -> RunRecord:
    """The record as it is to be read now: of a run whose time is over nobody will say any more how it ended."""
    if record.state is RunState.RUNNING and record.ends_by + _GRACE < now:
        return record.model_copy(update={"state": RunState.LOST})
    return record


_GRACE: Final = timedelta(seconds=30)
"""For clocks that differ, and for the end of a run to be written."""


def _fits(record: RunRecord, wanted: ListRuns) -> bool:
    return (
        record.project == wanted.project
        and wanted.skill in {None, record.skill}
        and wanted.state in {None, record.state}
    )
