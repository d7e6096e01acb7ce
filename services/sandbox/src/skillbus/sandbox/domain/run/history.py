"""History of runs, and the port to its store."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from skillbus.contracts.sandbox.run_history import ListRuns, RunFile, RunRecord, RunSelector, RunsListed, RunState
from skillbus.contracts.sandbox.skill_runs import RunUsage
from skillbus.sandbox.domain.errors import RunUnknown
from skillbus.sandbox.domain.run.spec import RunOutcome

PAGE_BYTES: Final = 512 * 1024
"""Size limit of a page of records: with its envelope it fits into a NATS message of 1 MiB."""
_SCANNED: Final = 20
"""Portions of the history that are scanned for one page."""
_DETAIL_CHARACTERS: Final = 2000
_GRACE: Final = timedelta(seconds=30)
"""Allowance for clock differences and for writing the end of a run."""


@dataclass(frozen=True, slots=True)
class HistoryPortion:
    """Part of the history, newest first."""

    records: Sequence[tuple[int, RunRecord]]
    """Records with their positions; newer records have higher ones."""
    before: int | None
    """Position to continue below; None at the end."""


class RunHistory(Protocol):
    """Store of run records, kept for a day."""

    async def record_start(self, record: RunRecord) -> None:
        """Record that a run starts.

        Raises:
            RunKnown: A run with that id exists.
            RequestError: It cannot be written.
        """

    async def record_end(self, record: RunRecord) -> None:
        """Record how a run ended. Raises RequestError if it cannot be written."""

    async def get_record(self, run_id: str) -> RunRecord | None:
        """Return the record of a run of any project, None if there is none."""

    async def read_portion(self, before: int | None) -> HistoryPortion:
        """Return the next records of all projects below position `before`, or the newest."""


def build_ended_record(record: RunRecord, outcome: RunOutcome) -> RunRecord:
    """Return the record of a run that has ended."""
    used = RunUsage(
        waited_ms=outcome.waited_ms,
        wall_ms=outcome.duration_ms,
        cpu_ms=outcome.cpu_ms,
        peak_bytes=outcome.peak_bytes,
        output_bytes=len(outcome.stdout) + len(outcome.stderr),
        artifacts=len(outcome.artifacts),
        artifacts_bytes=sum(len(artifact.content) for artifact in outcome.artifacts),
    )
    sizes = [RunFile(name=artifact.name, size_bytes=len(artifact.content)) for artifact in outcome.artifacts]
    return record.model_copy(
        update={
            "state": RunState(outcome.status),
            "exit_code": outcome.exit_code,
            "isolation": outcome.level.value,
            "truncated": outcome.truncated,
            "detail": outcome.detail[:_DETAIL_CHARACTERS],
            "artifacts": tuple(sizes),
            "used": used,
        }
    )


async def find_run(history: RunHistory, wanted: RunSelector, now: datetime) -> RunRecord:
    """Return a run of a project. Raises RunUnknown if there is none, or it belongs to another project."""
    record = await history.get_record(wanted.run_id)
    if record is None or record.project != wanted.project:
        raise RunUnknown(f"there is no run {wanted.run_id}: runs are remembered for a day")
    return resolve_state(record, now)


async def list_runs(history: RunHistory, wanted: ListRuns, now: datetime) -> RunsListed:
    """Return a page of a project's runs. A page may be short although more follow, because a scan is bounded."""
    found = list[RunRecord]()
    left_bytes = PAGE_BYTES
    before = None if wanted.after is None else int(wanted.after)
    for _ in range(_SCANNED):
        portion = await history.read_portion(before)
        for place, written in portion.records:
            record = resolve_state(written, now)
            if not _is_wanted(record, wanted):
                continue
            left_bytes -= len(record.model_dump_json().encode())
            if len(found) == wanted.limit or (found and left_bytes < 0):
                return RunsListed(runs=tuple(found), next=str(place + 1))
            found.append(record)
        before = portion.before
        if before is None:
            break
    return RunsListed(runs=tuple(found), next=None if before is None else str(before))


def _is_wanted(record: RunRecord, wanted: ListRuns) -> bool:
    return (
        record.project == wanted.project
        and wanted.skill in {None, record.skill}
        and wanted.state in {None, record.state}
        and (wanted.since is None or wanted.since <= record.began_at)
        and (wanted.until is None or record.began_at < wanted.until)
    )


def resolve_state(record: RunRecord, now: datetime) -> RunRecord:
    """Return the record, as `lost` if the run is past its deadline and nobody reported its end."""
    if record.state is RunState.RUNNING and record.ends_by + _GRACE < now:
        return record.model_copy(update={"state": RunState.LOST})
    return record
