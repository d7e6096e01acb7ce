"""Jobs that learn, in their table."""

import asyncio
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json
from sqlalchemy import Connection, and_, insert, or_, select, update

from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.learner.learning_jobs import (
    LearningFile,
    LearningJob,
    LearningPhase,
    LearningProgress,
    LearningStatus,
    ListLearningJobs,
)
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.tables import KNOWLEDGE, LEARNING_JOBS, LEARNING_RUNS
from skillbus.learner.domain.errors import ConcurrentChangeError, UnknownJobError
from skillbus.learner.domain.learning.ports import ClaimedJob, LearnedReport, RecordedJob
from skillbus.sql.errors import ConstraintError

RUNS_OF_A_SOURCE: Final = 50
"""Last test runs of a source that are kept. Source: knowledge.md, section 3: enough for flips over weeks."""
_ERROR_CHARACTERS: Final = 2_000
_jobs = LEARNING_JOBS.c
_FIELDS: Final = tuple(LearningJob.model_fields)
_COLUMNS: Final = tuple(_jobs[name] for name in _FIELDS)
_OPEN: Final = (LearningStatus.QUEUED.value, LearningStatus.RUNNING.value)
_REPEATABLE: Final = frozenset({LearningStatus.FAILED, LearningStatus.CANCELLED})
_NOT_CLAIMED: Final[dict[str, object]] = {"claim": None, "lease_until": None}


@dataclass(frozen=True, slots=True)
class SqlJobRecord:
    """Jobs, claimed by one runner at a time."""

    database: KnowledgeDatabase

    async def add_job(self, job: LearningJob, files: Sequence[LearningFile]) -> RecordedJob:
        given = _dump_job(job) | {"files": _dump_files(files), "attempts": 0, "report": None, **_NOT_CLAIMED}
        same = (_jobs.project == job.project, _jobs.what == job.what.value, _jobs.digest == job.digest)

        def work(connection: Connection) -> RecordedJob:
            row = connection.execute(select(*_COLUMNS).where(*same).with_for_update()).one_or_none()
            if row is None:
                connection.execute(insert(LEARNING_JOBS).values(given))
                return RecordedJob(job, is_repeated=False)
            first = _parse_job(row)
            if first.status not in _REPEATABLE:
                return RecordedJob(first, is_repeated=True)
            again = job.model_copy(update={"id": first.id})
            connection.execute(update(LEARNING_JOBS).where(_jobs.id == first.id).values(given | {"id": first.id}))
            return RecordedJob(again, is_repeated=False)

        for _ in range(2):
            try:
                return await self.database.write(work)
            except ConstraintError:  # another replica has just added the same; now it is seen
                continue
        raise ConcurrentChangeError

    async def get_job(self, project: str, job: str) -> LearningJob:
        return await self.database.read(lambda connection: _load_job(connection, project, job))

    async def list_jobs(self, wanted: ListLearningJobs) -> list[LearningJob]:
        page = select(*_COLUMNS).where(_jobs.project == wanted.project).order_by(_jobs.id.desc())
        if wanted.after is not None:
            page = page.where(_jobs.id < wanted.after)
        if wanted.status is not None:
            page = page.where(_jobs.status == wanted.status.value)
        if wanted.what is not None:
            page = page.where(_jobs.what == wanted.what.value)
        if wanted.source is not None:
            page = page.where(_jobs.source == wanted.source)
        if wanted.task is not None:
            page = page.where(_jobs.task == wanted.task)
        page = page.limit(wanted.limit + 1)
        return await self.database.read(lambda connection: [_parse_job(row) for row in connection.execute(page)])

    async def load_report(self, project: str, job: str) -> tuple[LearningJob, LearnedReport]:
        def work(connection: Connection) -> tuple[LearningJob, bytes | None]:
            found = _load_job(connection, project, job)
            return found, connection.execute(select(_jobs.report).where(_jobs.id == job)).scalar_one()

        found, packed = await self.database.read(work)
        return found, LearnedReport() if packed is None else await asyncio.to_thread(_unpack_report, packed)

    async def load_statuses(self, project: str, items: Collection[str]) -> dict[str, KnowledgeStatus]:
        held = KNOWLEDGE.c
        query = select(held.id, held.status).where(held.project == project, held.id.in_(items))
        if not items:
            return {}
        rows = await self.database.read(lambda connection: connection.execute(query).all())
        return {row.id: KnowledgeStatus(row.status) for row in rows}

    async def cancel_job(self, project: str, job: str, at: datetime) -> tuple[LearningFile, ...] | None:
        def work(connection: Connection) -> tuple[LearningFile, ...] | None:
            query = select(_jobs.status, _jobs.progress, _jobs.files)
            query = query.where(_jobs.project == project, _jobs.id == job).with_for_update()
            row = connection.execute(query).one_or_none()
            if row is None:
                raise UnknownJobError(project, job)
            if row.status not in _OPEN:
                return None
            ended = {"status": LearningStatus.CANCELLED.value, "ended_at": at, "files": [], **_NOT_CLAIMED}
            ended["progress"] = {**row.progress, "phase": LearningPhase.ENDED.value}
            connection.execute(update(LEARNING_JOBS).where(_jobs.id == job).values(ended))
            return _parse_files(row.files)

        return await self.database.write(work)

    async def claim_job(self, claim: str, at: datetime, lease_until: datetime) -> ClaimedJob | None:
        left = and_(_jobs.status == LearningStatus.RUNNING.value, _jobs.lease_until < at)
        query = select(*_COLUMNS, _jobs.files, _jobs.attempts)
        query = query.where(or_(_jobs.status == LearningStatus.QUEUED.value, left))
        query = query.order_by(_jobs.id).limit(1)

        def work(connection: Connection) -> ClaimedJob | None:
            row = connection.execute(query.with_for_update(skip_locked=True)).one_or_none()
            if row is None:
                return None
            attempt: int = row.attempts + 1
            job = _parse_job(row).model_copy(update={"status": LearningStatus.RUNNING, "started_at": at})
            values: dict[str, object] = {"status": job.status.value, "started_at": at, "attempts": attempt}
            values |= {"claim": claim, "lease_until": lease_until}
            connection.execute(update(LEARNING_JOBS).where(_jobs.id == job.id).values(values))
            return ClaimedJob(job, _parse_files(row.files), claim, attempt)

        # An idle replica only reads.
        if await self.database.read(lambda connection: connection.execute(query).one_or_none()) is None:
            return None
        return await self.database.write(work)

    async def advance_job(self, claimed: ClaimedJob, progress: LearningProgress, lease_until: datetime) -> bool:
        values = {"progress": progress.model_dump(mode="json"), "lease_until": lease_until}
        return await self.database.write(lambda connection: update_claimed(connection, claimed, values))

    async def release_job(self, claimed: ClaimedJob) -> None:
        values = {"status": LearningStatus.QUEUED.value, "attempts": claimed.attempt - 1, **_NOT_CLAIMED}
        await self.database.write(lambda connection: update_claimed(connection, claimed, values))

    async def fail_job(self, claimed: ClaimedJob, error: str, at: datetime) -> LearningJob | None:
        ended = {"status": LearningStatus.FAILED, "error": error[:_ERROR_CHARACTERS], "ended_at": at}
        job = end_progress(claimed.job.model_copy(update=ended))
        done = await self.database.write(lambda connection: end_claimed(connection, claimed, job, None))
        return job if done else None

    async def list_files(self, job: str) -> tuple[LearningFile, ...]:
        query = select(_jobs.files).where(_jobs.id == job)
        return _parse_files(await self.database.read(lambda connection: connection.execute(query).scalar_one()))

    async def load_runs(self, project: str, source: str) -> list[JsonValue]:
        runs = LEARNING_RUNS.c
        query = select(runs.run).where(runs.project == project, runs.source == source)
        query = query.order_by(runs.sequence.desc()).limit(RUNS_OF_A_SOURCE)
        found = await self.database.read(lambda connection: connection.execute(query).scalars().all())
        return [from_json(zlib.decompress(run)) for run in reversed(found)]


def end_progress(job: LearningJob) -> LearningJob:
    """Return the job with the phase of an ended one."""
    return job.model_copy(update={"progress": job.progress.model_copy(update={"phase": LearningPhase.ENDED})})


def end_claimed(connection: Connection, claimed: ClaimedJob, job: LearningJob, report: LearnedReport | None) -> bool:
    """Write the end of a job. Return False if it is not this claim's any more."""
    values = _dump_job(job) | {"files": [], **_NOT_CLAIMED}
    if report is not None:
        values["report"] = zlib.compress(report.model_dump_json().encode())
    return update_claimed(connection, claimed, values)


def update_claimed(connection: Connection, claimed: ClaimedJob, values: dict[str, object]) -> bool:
    """Change a job that a claim holds. Return False if it is not this claim's any more."""
    mine = (_jobs.id == claimed.job.id, _jobs.claim == claimed.claim)
    return connection.execute(update(LEARNING_JOBS).where(*mine).values(values)).rowcount == 1


def _unpack_report(packed: bytes) -> LearnedReport:
    return LearnedReport.model_validate_json(zlib.decompress(packed))


def _load_job(connection: Connection, project: str, job: str) -> LearningJob:
    row = connection.execute(select(*_COLUMNS).where(_jobs.project == project, _jobs.id == job)).one_or_none()
    if row is None:
        raise UnknownJobError(project, job)
    return _parse_job(row)


def _parse_job(row: Sequence[object]) -> LearningJob:
    return LearningJob.model_validate(dict(zip(_FIELDS, row, strict=False)))


def _dump_job(job: LearningJob) -> dict[str, object]:
    row: dict[str, object] = {name: getattr(job, name) for name in _FIELDS}
    row |= {"what": job.what.value, "status": job.status.value}
    return row | {"progress": job.progress.model_dump(mode="json"), "context": job.context.model_dump(mode="json")}


def _dump_files(files: Sequence[LearningFile]) -> list[JsonValue]:
    return [file.model_dump(mode="json") for file in files]


def _parse_files(files: Sequence[JsonValue]) -> tuple[LearningFile, ...]:
    return tuple(LearningFile.model_validate(file) for file in files)
