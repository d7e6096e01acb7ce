"""Stores what a job learned: pending items, test runs, the report and the end of the job, in one transaction."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json
from sqlalchemy import Connection, delete, insert, select

from skillbus.contracts.learner.knowledge import KnowledgeDraft, KnowledgeStatus
from skillbus.contracts.learner.learned import LOG_LEARNING, TEST_LEARNING, LearnedItem, LearnedKind
from skillbus.contracts.learner.learning_jobs import LearningJob, LearningStatus
from skillbus.learner.adapters.sql.change_writer import write_changes
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.learning.job_record import RUNS_OF_A_SOURCE, end_claimed, end_progress
from skillbus.learner.adapters.sql.tables import LEARNED_ITEMS, LEARNING_JOBS, LEARNING_RUNS
from skillbus.learner.domain.errors import ConcurrentChangeError
from skillbus.learner.domain.item import lifecycle
from skillbus.learner.domain.item.lifecycle import Attribution, ItemChange
from skillbus.learner.domain.item.values import generate_id
from skillbus.learner.domain.learning.ports import ClaimedJob, ExtractionResult, LearnedReport
from skillbus.sql.errors import ConstraintError

_ATTEMPTS: Final = 3
_NAMES_PER_QUERY: Final = 500
_OF_TESTS: Final = frozenset(
    {LearnedKind.REGRESSION, LearnedKind.FLAKY, LearnedKind.ENVIRONMENT, LearnedKind.PREEXISTING}
)
_items = LEARNED_ITEMS.c
_runs = LEARNING_RUNS.c


def compute_identity(item: LearnedItem) -> str:
    """Return the SHA-256 of what an item states and where: two items with one identity say the same."""
    said = item.statement
    return sha256(to_json([item.scope, said.subject, said.predicate, said.value, said.polarity])).hexdigest()


@dataclass(frozen=True, slots=True)
class SqlItemProposer:
    """Proposes each statement once: what was proposed before, also if it was rejected, is not proposed again."""

    database: KnowledgeDatabase
    on_write: Callable[[], None]
    """Called after each transaction that filled the outbox."""

    async def finish_job(self, claimed: ClaimedJob, result: ExtractionResult, at: datetime) -> LearningJob | None:
        by_identity = {compute_identity(item): item for item in reversed(result.items)}

        def work(connection: Connection) -> LearningJob | None:
            mine = (LEARNING_JOBS.c.id == claimed.job.id, LEARNING_JOBS.c.claim == claimed.claim)
            if connection.execute(select(LEARNING_JOBS.c.id).where(*mine).with_for_update()).scalar() is None:
                return None
            known = _find_known(connection, claimed.job.project, list(by_identity))
            new = {identity: item for identity, item in reversed(by_identity.items()) if identity not in known}
            ended = {"status": LearningStatus.DONE, "ended_at": at, "error": None}
            ended |= {"new_items": len(new), "known_items": len(known)}
            job = end_progress(claimed.job.model_copy(update=ended))
            end_claimed(connection, claimed, job, LearnedReport(files=result.files, items=result.items))
            _add_runs(connection, claimed.job, result.runs, at)
            _add_items(connection, claimed.job, new, at)
            return job

        for _ in range(_ATTEMPTS):
            try:
                job = await self.database.write(work)
            except (ConstraintError, ConcurrentChangeError):
                continue
            if job is not None and job.new_items:
                self.on_write()
            return job
        raise ConcurrentChangeError


def _find_known(connection: Connection, project: str, identities: Sequence[str]) -> set[str]:
    known = set[str]()
    for at in range(0, len(identities), _NAMES_PER_QUERY):
        some = identities[at : at + _NAMES_PER_QUERY]
        query = select(_items.identity).where(_items.project == project, _items.identity.in_(some))
        known.update(connection.execute(query).scalars())
    return known


def _add_items(connection: Connection, job: LearningJob, items: dict[str, LearnedItem], at: datetime) -> None:
    if not items:
        return
    by = Attribution(job.actor, at, f"learned by job {job.id}")
    ids = sorted(generate_id(at) for _ in items)
    changes = [_propose_item(item, new_id, job, by) for item, new_id in zip(items.values(), ids, strict=True)]
    write_changes(connection, changes)
    rows = [
        {"id": new_id, "project": job.project, "identity": identity, "job": job.id, "at": at}
        | {"learned": item.model_dump_json()}
        for (identity, item), new_id in zip(items.items(), ids, strict=True)
    ]
    connection.execute(insert(LEARNED_ITEMS), rows)


def _propose_item(item: LearnedItem, new_id: str, job: LearningJob, by: Attribution) -> ItemChange:
    draft = KnowledgeDraft(
        type=item.type,
        title=item.title,
        content=item.content,
        scope=item.scope,
        tags=item.tags,
        source=TEST_LEARNING if item.kind in _OF_TESTS else LOG_LEARNING,
        source_ref=job.task or job.id,
    )
    return lifecycle.create_item(draft, new_id, job.project, KnowledgeStatus.PENDING, by)


def _add_runs(connection: Connection, job: LearningJob, runs: Sequence[dict[str, JsonValue]], at: datetime) -> None:
    """Append test runs to the history of their source, each once, and keep the last ones."""
    if not runs:
        return
    own = (_runs.project == job.project, _runs.source == job.source)
    given = {sha256(content).hexdigest(): content for content in map(to_json, runs)}
    kept = set(connection.execute(select(_runs.digest).where(*own)).scalars())
    rows = [
        {"project": job.project, "source": job.source, "digest": digest, "at": at, "run": zlib.compress(content)}
        for digest, content in given.items()
        if digest not in kept
    ]
    if rows:
        connection.execute(insert(LEARNING_RUNS), rows)
    newest = select(_runs.sequence).where(*own).order_by(_runs.sequence.desc())
    oldest_kept = connection.execute(newest.offset(RUNS_OF_A_SOURCE - 1).limit(1)).scalar()
    if oldest_kept is not None:
        connection.execute(delete(LEARNING_RUNS).where(*own, _runs.sequence < oldest_kept))
