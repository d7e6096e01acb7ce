"""Claims of jobs, on SQLite and on PostgreSQL: a runner that dies leaves its job to another one, once."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.chat.structured_answer import AnswerMode, RawAnswer
from skillbus.common.testing import eventually
from skillbus.contracts.learner.learned import LearnedItem
from skillbus.contracts.learner.learning_jobs import (
    GET_LEARNING_JOB,
    LearningInputKind,
    LearningJob,
    LearningJobSelector,
    LearningProgress,
    LearningStatus,
    ListLearningJobs,
    StartLearning,
)
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.learning.answer_cache import SqlAnswerCache
from skillbus.learner.adapters.sql.learning.item_proposer import SqlItemProposer
from skillbus.learner.adapters.sql.learning.job_record import RUNS_OF_A_SOURCE, SqlJobRecord
from skillbus.learner.adapters.sql.tables import SCHEMA
from skillbus.learner.domain.item.values import generate_id
from skillbus.learner.domain.learning.jobs import compute_digest
from skillbus.learner.domain.learning.ports import ClaimedJob, ExtractionResult
from skillbus.learner.domain.learning.runner import MAX_ATTEMPTS
from skillbus.learner.wiring import open_learner
from skillbus.sql.database import open_database

from .fake_services import open_fake_retriever
from .test_learning_jobs import ENDS_WITHIN_S, HERE, list_pending, make_file, make_settings

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LEASE = timedelta(seconds=30)


@dataclass(frozen=True)
class Record:
    database: KnowledgeDatabase
    jobs: SqlJobRecord
    proposer: SqlItemProposer
    writes: list[str]

    async def add(self, text: str) -> tuple[LearningJob, bool]:
        request = StartLearning(what=LearningInputKind.LOGS, files=(make_file("a.log", text),))
        added = await self.jobs.add_job(make_job(request), request.files)
        return added.job, added.is_repeated

    async def claim(self, name: str, at: datetime) -> ClaimedJob | None:
        return await self.jobs.claim_job(name, at, at + LEASE)


def make_job(request: StartLearning) -> LearningJob:
    return LearningJob(
        id=generate_id(NOW),
        what=request.what,
        source=request.source,
        digest=compute_digest(request),
        status=LearningStatus.QUEUED,
        created_at=NOW,
    )


@pytest.fixture
async def record(knowledge_url: str) -> AsyncGenerator[Record]:
    async with open_database(knowledge_url, SCHEMA) as opened:
        database, writes = KnowledgeDatabase(opened), list[str]()
        yield Record(
            database, SqlJobRecord(database), SqlItemProposer(database, lambda: writes.append("written")), writes
        )


def make_item(line: str, **given: object) -> LearnedItem:
    said = {"subject": line, "predicate": "is", "value": "set"}
    described = {"kind": "config", "type": "project_config", "title": line, "content": line, "statement": said}
    evidence = [{"file": "a.log", "line": 1, "quote": line}]
    found = {"evidence": evidence, "confidence": {"low": 0.5, "high": 1.0}, "seen": 1}
    return LearnedItem.model_validate({**described, **found, **given})


async def test_a_job_has_one_runner_until_its_lease_ends(record: Record) -> None:
    job, _ = await record.add("a=1")
    first = await record.claim("first", NOW)
    assert first is not None
    assert (first.job.id, first.job.status, first.attempt) == (job.id, LearningStatus.RUNNING, 1)
    assert await record.claim("second", NOW + LEASE) is None
    assert await record.jobs.advance_job(first, LearningProgress(items=1), NOW + LEASE + LEASE)
    assert await record.claim("second", NOW + LEASE + LEASE) is None
    second = await record.claim("second", NOW + 3 * LEASE)
    assert second is not None
    assert (second.attempt, [file.name for file in second.files]) == (2, ["a.log"])
    result = ExtractionResult(items=(make_item("a"),))
    assert not await record.jobs.advance_job(first, LearningProgress(), NOW + 9 * LEASE)
    assert await record.proposer.finish_job(first, result, [[]], NOW) is None
    assert await record.jobs.fail_job(first, "x", NOW) is None
    await record.jobs.release_job(first)
    assert record.writes == []
    done = await record.proposer.finish_job(second, result, [[]], NOW)
    assert done is not None
    assert (done.status, done.new_items, record.writes) == (LearningStatus.DONE, 1, ["written"])
    assert await record.jobs.get_job("default", job.id) == done
    assert await record.claim("third", NOW + 9 * LEASE) is None


async def test_an_answer_of_a_model_is_kept_for_thirty_days(record: Record) -> None:
    times = [NOW, NOW + timedelta(days=29), NOW + timedelta(days=31)]
    first, later, last = (SqlAnswerCache(record.database, partial(times.__getitem__, place)) for place in range(3))
    answer = RawAnswer("{}", "lab/small", 400)
    await first.put_answer("key", AnswerMode.TOOL, answer)
    assert await later.get_answer("key") == (AnswerMode.TOOL, answer)
    assert await last.get_answer("key") is None


async def test_a_cancelled_job_stores_nothing(record: Record) -> None:
    job, _ = await record.add("a=1")
    claimed = await record.claim("first", NOW)
    assert claimed is not None
    assert await record.jobs.cancel_job("default", job.id, NOW) == claimed.files
    assert await record.jobs.cancel_job("default", job.id, NOW) is None
    assert await record.proposer.finish_job(claimed, ExtractionResult(items=(make_item("a"),)), [[]], NOW) is None
    _, report = await record.jobs.load_report("default", job.id)
    assert (report.items, record.writes) == ((), [])


async def test_a_failed_job_runs_again_and_one_that_is_done_does_not(record: Record) -> None:
    job, _ = await record.add("a=1")
    claimed = await record.claim("first", NOW)
    assert claimed is not None
    await record.jobs.fail_job(claimed, "no", NOW)
    again, repeated = await record.add("a=1")
    assert (again.id, again.error, repeated) == (job.id, None, False)
    assert (await record.add("a=1"))[1]
    claimed = await record.claim("second", NOW)
    assert claimed is not None
    assert claimed.attempt == 1
    await record.proposer.finish_job(claimed, ExtractionResult(), [], NOW)
    assert (await record.add("a=1"))[1]


async def test_the_last_test_runs_of_a_source_are_kept(record: Record) -> None:
    for number in range(2):
        await record.add(str(number))
        claimed = await record.claim(str(number), NOW)
        assert claimed is not None
        runs = tuple({"run": f"{number}.{at}"} for at in range(30))
        await record.proposer.finish_job(claimed, ExtractionResult(runs=(*runs, *runs)), [], NOW)
    kept = await record.jobs.load_runs("default", "default")
    assert len(kept) == RUNS_OF_A_SOURCE
    assert (kept[0], kept[-1]) == ({"run": "0.10"}, {"run": "1.29"})


async def test_lists_are_pages_newest_first_with_filters(record: Record) -> None:
    ids = [(await record.add(str(number)))[0].id for number in range(3)]
    newest = sorted(ids, reverse=True)
    listed = await record.jobs.list_jobs(ListLearningJobs(limit=2))
    assert [job.id for job in listed] == newest  # one more than the page
    after = await record.jobs.list_jobs(ListLearningJobs(after=newest[1], status=LearningStatus.QUEUED))
    assert [job.id for job in after] == newest[2:]
    assert await record.jobs.list_jobs(ListLearningJobs(source="other")) == []
    assert await record.jobs.list_jobs(ListLearningJobs(project="other")) == []


@pytest.mark.parametrize(("attempts", "status"), [(1, LearningStatus.DONE), (MAX_ATTEMPTS, LearningStatus.FAILED)])
async def test_the_job_of_a_killed_learner_is_begun_again_but_not_forever(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: int, status: LearningStatus
) -> None:
    """A claim whose lease has ended is what a killed learner leaves."""
    settings = make_settings(tmp_path)
    left = tmp_path / "learning" / "job-left"
    left.mkdir(parents=True)
    async with open_database(settings.record_url(), SCHEMA) as opened:
        database = KnowledgeDatabase(opened)
        record = Record(database, SqlJobRecord(database), SqlItemProposer(database, print), [])
        job, _ = await record.add("a=1")
        for number in range(attempts):
            assert await record.claim("killed", NOW + 2 * number * LEASE) is not None
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    async with open_fake_retriever(bus), open_learner(bus, settings, "fake_extraction"):
        selector = LearningJobSelector(id=job.id)
        ended = await eventually(
            lambda: bus.caller.call(GET_LEARNING_JOB, selector), lambda now: now.ended_at is not None, ENDS_WITHIN_S
        )
        assert ended.status is status
        assert await list_pending(bus) == (["a=1"] if status is LearningStatus.DONE else [])
    assert not left.exists()
