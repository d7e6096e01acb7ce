"""Stores what a job learned: pending items, test runs, the report and the end of the job, in one transaction."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json
from sqlalchemy import Connection, delete, insert, select

from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.learned import LearnedItem
from skillbus.contracts.learner.learning_jobs import LearningJob, LearningStatus
from skillbus.contracts.learner.proposals import ProposalDecision, ProposalKind, ReportedItem
from skillbus.learner.adapters.sql.change_writer import write_changes
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.learning.job_record import RUNS_OF_A_SOURCE, end_claimed, end_progress
from skillbus.learner.adapters.sql.learning.proposal_rows import (
    insert_proposal,
    load_active,
    load_known,
    reinforce_proposal,
    replace_learned,
)
from skillbus.learner.adapters.sql.tables import LEARNING_JOBS, LEARNING_RUNS
from skillbus.learner.domain.errors import ConcurrentChangeError
from skillbus.learner.domain.item import lifecycle
from skillbus.learner.domain.item.lifecycle import Attribution
from skillbus.learner.domain.item.values import generate_id
from skillbus.learner.domain.learning.ports import ClaimedJob, ExtractionResult, LearnedReport
from skillbus.learner.domain.learning.resolution import KnownStatement, Resolution, resolve_item
from skillbus.learner.domain.learning.statement import choose_source, compute_topic, draft_item
from skillbus.sql.errors import ConstraintError

_ATTEMPTS: Final = 3
_NEW: Final = frozenset({ProposalKind.ADD, ProposalKind.SUPERSEDE, ProposalKind.CONFLICT})
"""Proposals that become a pending item of their own."""
_runs = LEARNING_RUNS.c


@dataclass(frozen=True, slots=True)
class SqlItemProposer:
    """Resolves items against what is known, and proposes what is new."""

    database: KnowledgeDatabase
    on_write: Callable[[], None]
    """Called after each transaction that filled the outbox."""

    async def finish_job(
        self, claimed: ClaimedJob, result: ExtractionResult, neighbours: Sequence[Sequence[str]], at: datetime
    ) -> LearningJob | None:
        def work(connection: Connection) -> LearningJob | None:
            mine = (LEARNING_JOBS.c.id == claimed.job.id, LEARNING_JOBS.c.claim == claimed.claim)
            if connection.execute(select(LEARNING_JOBS.c.id).where(*mine).with_for_update()).scalar() is None:
                return None
            items = _ItemWriter(connection, claimed.job, at).write_items(result.items, neighbours)
            new = sum(item.proposal in _NEW for item in items)
            ended = {"status": LearningStatus.DONE, "ended_at": at, "error": None}
            ended |= {"new_items": new, "known_items": len(items) - new}
            job = end_progress(claimed.job.model_copy(update=ended))
            report = LearnedReport(
                files=result.files,
                items=items,
                use=result.use,
                templates=result.templates,
                suites=result.suites,
                redactions=result.redactions,
            )
            end_claimed(connection, claimed, job, report)
            _add_runs(connection, claimed.job, result.runs, at)
            return job

        for _ in range(_ATTEMPTS):
            try:
                job = await self.database.write(work)
            except (ConstraintError, ConcurrentChangeError):
                continue
            if job is not None and job.new_items + job.known_items:
                self.on_write()
            return job
        raise ConcurrentChangeError


@dataclass(slots=True)
class _ItemWriter:
    """Writes the items of one job, each after the ones before it."""

    connection: Connection
    job: LearningJob
    at: datetime
    known: dict[str, list[KnownStatement]] = field(default_factory=dict)
    """Items about the topics of the job, newest first, with those of the job itself."""

    def write_items(
        self, items: Sequence[LearnedItem], neighbours: Sequence[Sequence[str]]
    ) -> tuple[ReportedItem, ...]:
        project = self.job.project
        self.known = load_known(self.connection, project, {compute_topic(item) for item in items})
        near = load_active(self.connection, project, sorted({item for ids in neighbours for item in ids}))
        nearest = [[near[item] for item in ids if item in near] for ids in neighbours]
        return tuple(self._write_item(item, found) for item, found in zip(items, nearest, strict=True))

    def _write_item(self, learned: LearnedItem, neighbours: Sequence[KnowledgeItem]) -> ReportedItem:
        known = self.known[compute_topic(learned)]
        resolution = resolve_item(learned, choose_source(learned), known, neighbours, self.job.id)
        match resolution.kind:
            case ProposalKind.REINFORCE:
                self._reinforce(learned, resolution, neighbours)
            case ProposalKind.UPDATE:
                self._update(learned, resolution)
            case ProposalKind.SUPPRESS:
                pass
            case _:
                return _report(learned, resolution, self._add(learned, resolution), resolution.other)
        is_suppressed = resolution.kind is ProposalKind.SUPPRESS
        return _report(
            learned,
            resolution,
            None if is_suppressed else resolution.other,
            resolution.other if is_suppressed else None,
        )

    def _add(self, learned: LearnedItem, resolution: Resolution) -> str:
        by = Attribution(self.job.actor, self.at, f"learned by job {self.job.id}")
        draft = draft_item(learned, self.job.task or self.job.id)
        new_id = generate_id(self.at)
        change = lifecycle.create_item(draft, new_id, self.job.project, KnowledgeStatus.PENDING, by)
        write_changes(self.connection, [change])
        insert_proposal(self.connection, change.item, learned, resolution, self.job.id, self.at)
        self.known[compute_topic(learned)].insert(0, KnownStatement(change.item, learned, job=self.job.id))
        return new_id

    def _update(self, learned: LearnedItem, resolution: Resolution) -> None:
        """Give a pending item the new statement. Its history keeps the former one."""
        topic = compute_topic(learned)
        before = next(one for one in self.known[topic] if one.item.id == resolution.other)
        by = Attribution(self.job.actor, self.at, resolution.reason[:2_000])
        fields = draft_item(learned, self.job.task or self.job.id).model_dump(
            include={"type", "title", "content", "tags", "source", "source_ref"}
        )
        change = lifecycle.update_item(before.item, fields, by)
        item = before.item
        if change is not None:
            write_changes(self.connection, [change])
            item = change.item
        replace_learned(self.connection, item.id, learned, resolution.reason, self.at)
        self.known[topic] = [
            KnownStatement(item, learned, job=self.job.id) if one.item.id == item.id else one
            for one in self.known[topic]
        ]

    def _reinforce(self, learned: LearnedItem, resolution: Resolution, neighbours: Sequence[KnowledgeItem]) -> None:
        """Add evidence to the known item: to its proposal, or else to the one that was merged into it.

        An item of a person that has neither gets the statement with it.
        """
        if resolution.other is None:
            raise ValueError("a reinforcement names the known item")
        known = self.known[compute_topic(learned)]
        merged = (one for one in known if one.decision is ProposalDecision.MERGED and one.other == resolution.other)
        for item in (resolution.other, *(one.item.id for one in merged)):
            if reinforce_proposal(self.connection, self.job.project, item, learned, self.at):
                return
        found = next((item for item in neighbours if item.id == resolution.other), None)
        if found is not None:
            insert_proposal(self.connection, found, learned, resolution, self.job.id, self.at)
            known.insert(0, KnownStatement(found, learned, job=self.job.id))


def _report(learned: LearnedItem, resolution: Resolution, item: str | None, other: str | None) -> ReportedItem:
    became: Mapping[str, object] = {
        "proposal": resolution.kind,
        "proposal_reason": resolution.reason,
        "item_id": item,
        "other": other,
    }
    return ReportedItem.model_validate(learned.model_dump() | dict(became))


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
