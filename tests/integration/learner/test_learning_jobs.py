"""The life of a job that learns, on the bus: started, followed, repeated, cancelled, failed, taken over."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest
from pydantic import SecretStr

from skillbus.common.bus.codec import encode
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import subscribe_to_feed
from skillbus.common.bus.objects import ObjectStore, open_object_store
from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.bulk import EXPORT_KNOWLEDGE, ExportKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.learned import LearnedFileStatus
from skillbus.contracts.learner.learning_jobs import (
    CANCEL_LEARNING,
    GET_LEARNING_JOB,
    GET_LEARNING_REPORT,
    LEARNING_ADVANCED,
    LIST_LEARNING_JOBS,
    LIST_LEARNING_SOURCES,
    LOG_PARSED,
    SET_LEARNING_SOURCE,
    START_LEARNING,
    TEST_FINISHED,
    CancelLearning,
    GetLearningReport,
    LearningAdvanced,
    LearningFile,
    LearningInputKind,
    LearningJob,
    LearningJobSelector,
    LearningPhase,
    LearningStarted,
    LearningStatus,
    LearningTrigger,
    ListLearningJobs,
    ListLearningSources,
    LogParsed,
    RunContext,
    RunFinished,
    SetLearningSource,
    StartLearning,
)
from skillbus.contracts.learner.versions import REVIEW_KNOWLEDGE, ReviewAction, ReviewKnowledge
from skillbus.contracts.message import Content
from skillbus.contracts.resources import DEAD_LETTERS, LEARNING_FILES
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner

from .fake_services import open_fake_model, open_fake_retriever

HERE = Path(__file__).parent
ENDS_WITHIN_S = 30.0
"""Bound for a job on a busy machine: its process runs at low priority."""
ENDED = {LearningStatus.DONE, LearningStatus.FAILED, LearningStatus.CANCELLED}


def make_settings(folder: Path, **given: object) -> LearnerSettings:
    database = SecretStr(f"sqlite:///{folder / 'knowledge.db'}")
    values = {"database_url": database, "data": folder, "wait_indexed_s": 0, **given}
    return LearnerSettings.model_validate(values)


@pytest.fixture
async def learner(bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Bus]:
    """The bus of a learner whose jobs run the fake extraction."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    async with open_fake_retriever(bus), open_learner(bus, make_settings(tmp_path), "fake_extraction"):
        yield bus


def make_file(name: str, text: str) -> LearningFile:
    content = text.encode()
    return LearningFile(
        name=name, content=Content(size_bytes=len(content), sha256=sha256(content).hexdigest(), inline=content)
    )


async def store_file(store: ObjectStore, name: str, text: str) -> LearningFile:
    """Return a file whose content is an object of the bucket."""
    content = text.encode()
    await store.put(name, content)
    described = Content(size_bytes=len(content), sha256=sha256(content).hexdigest(), object_name=name)
    return LearningFile(name=name, content=described)


async def start(bus: Bus, *files: LearningFile, **given: object) -> LearningJob:
    request = StartLearning.model_validate({"what": LearningInputKind.LOGS, "files": files, **given})
    started = await bus.caller.call(START_LEARNING, request)
    assert started.job is not None
    return started.job


async def wait_for_end(bus: Bus, job: LearningJob) -> LearningJob:
    return await eventually(
        lambda: bus.caller.call(GET_LEARNING_JOB, LearningJobSelector(id=job.id)),
        lambda now: now.status in ENDED,
        ENDS_WITHIN_S,
    )


async def learn(bus: Bus, *files: LearningFile, **given: object) -> LearningJob:
    return await wait_for_end(bus, await start(bus, *files, **given))


async def export_pending(bus: Bus) -> tuple[KnowledgeItem, ...]:
    return (await bus.caller.call(EXPORT_KNOWLEDGE, ExportKnowledge(statuses=(KnowledgeStatus.PENDING,)))).items


async def list_pending(bus: Bus) -> list[str]:
    return sorted(item.title for item in await export_pending(bus))


async def test_a_job_reads_its_files_and_proposes_pending_items_of_its_task(learner: Bus) -> None:
    store = await open_object_store(learner, LEARNING_FILES)
    files = (make_file("a.log", "port=80\n"), await store_file(store, "b.log", "host=db\nport=80\n"))
    job = await learn(learner, *files, task="nightly 17", actor="robot")
    assert (job.status, job.new_items, job.known_items) == (LearningStatus.DONE, 2, 1)
    assert job.progress.phase is LearningPhase.ENDED
    assert (job.progress.files_done, job.progress.bytes_done) == (2, job.progress.total_bytes)
    assert {(one.title, one.source, one.source_ref, one.updated_by) for one in await export_pending(learner)} == {
        ("port=80", "log_learning", "nightly 17", "robot"),
        ("host=db", "log_learning", "nightly 17", "robot"),
    }
    assert await store.names() == []


async def test_a_report_has_files_and_items_page_by_page(learner: Bus) -> None:
    job = await learn(learner, make_file("a.log", "a=1\nb=2\n"), make_file("b.bin", "bad"))
    ask = GetLearningReport(id=job.id, limit=3)
    first = await learner.caller.call(GET_LEARNING_REPORT, ask)
    assert [(file.path, file.status, file.error) for file in first.files] == [
        ("a.log", LearnedFileStatus.READ, None),
        ("b.bin", LearnedFileStatus.FAILED, "is not a log"),
    ]
    assert [item.title for item in first.items] == ["a=1"]
    last = await learner.caller.call(GET_LEARNING_REPORT, ask.model_copy(update={"after": first.next}))
    assert ([item.evidence[0].line for item in last.items], last.files, last.next) == ([2], (), None)


async def test_the_same_files_start_one_job_and_their_objects_are_deleted(learner: Bus) -> None:
    store = await open_object_store(learner, LEARNING_FILES)
    first = await learn(learner, make_file("a.log", "a=1\n"))
    again = StartLearning(what=LearningInputKind.LOGS, files=(await store_file(store, "other name.log", "a=1\n"),))
    started = await learner.caller.call(START_LEARNING, again)
    assert started == LearningStarted(job=first, repeated=True)
    assert await store.names() == []


async def test_a_known_statement_is_not_proposed_again_even_if_it_was_rejected(learner: Bus) -> None:
    await learn(learner, make_file("a.log", "a=1\n"))
    [item] = await export_pending(learner)
    reject = ReviewKnowledge(ids=(item.id,), action=ReviewAction.REJECT)
    await learner.caller.call(REVIEW_KNOWLEDGE, reject)
    job = await learn(learner, make_file("b.log", "a=1\na=2\n"))
    assert (job.new_items, job.known_items) == (1, 1)
    assert await list_pending(learner) == ["a=2"]


async def test_a_cancelled_job_ends_at_once_stores_nothing_and_can_run_again(learner: Bus, tmp_path: Path) -> None:
    store = await open_object_store(learner, LEARNING_FILES)
    feed = subscribe_to_feed(learner.client, LEARNING_ADVANCED, "*")
    async with feed as events:
        held = (make_file("a.log", "a=1\n"), await store_file(store, "held.log", "hold"))
        job = await start(learner, *held)
        async for event in events:
            if event.progress.items == 1:
                break
        request = CancelLearning(id=job.id)
        assert (await learner.caller.call(CANCEL_LEARNING, request)).cancelled
        assert [one.status async for one in _until_ended(events)][-1] is LearningStatus.CANCELLED
    assert not (await learner.caller.call(CANCEL_LEARNING, request)).cancelled
    assert (await list_pending(learner), await store.names()) == ([], [])
    # The runner is free: its process was killed, and its folder is gone.
    assert (await learn(learner, make_file("b.log", "b=2\n"))).status is LearningStatus.DONE
    assert list((tmp_path / "learning").iterdir()) == []
    again = await start(learner, held[0], await store_file(store, "held.log", "hold"))
    assert (again.id, again.status) == (job.id, LearningStatus.QUEUED)
    await learner.caller.call(CANCEL_LEARNING, request)


async def _until_ended(events: AsyncIterator[LearningAdvanced]) -> AsyncIterator[LearningAdvanced]:
    async for event in events:
        yield event
        if event.status in ENDED:
            return


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("crash", "exit code 1, LookupError"),
        ("fill", "1024 MiB of memory"),
        ("prose", "what is no result"),
    ],
)
async def test_an_extraction_that_fails_fails_its_job_and_not_the_learner(learner: Bus, word: str, told: str) -> None:
    job = await learn(learner, make_file("a.log", "a=1\n"), make_file("b.log", word))
    assert job.status is LearningStatus.FAILED
    assert job.error is not None
    assert told in job.error
    assert "secret-of-the-file" not in job.error
    assert await list_pending(learner) == []
    assert (await learn(learner, make_file("c.log", "c=3\n"))).new_items == 1


async def test_an_object_that_is_missing_or_has_other_bytes_fails_the_job(learner: Bus) -> None:
    store = await open_object_store(learner, LEARNING_FILES)
    file = await store_file(store, "a.log", "a=1\n")
    await store.put("a.log", b"a=9\n")
    job = await learn(learner, file)
    assert (job.status, job.error) == (
        LearningStatus.FAILED,
        "The object a.log does not have its `sha256`: store it again and give its digest.",
    )
    assert (await learn(learner, file)).error == "Could not open a.log of learning: it does not exist."


async def test_an_inline_file_without_its_digest_is_refused(learner: Bus) -> None:
    file = make_file("a.log", "a=1\n")
    wrong = file.model_copy(update={"content": file.content.model_copy(update={"sha256": "0" * 64})})
    with pytest.raises(RequestError, match="does not have its `sha256`") as refused:
        await start(learner, wrong)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


async def test_nothing_is_learned_from_a_source_that_is_switched_off(learner: Bus) -> None:
    switch = SetLearningSource(source="payments", enabled=False, actor="ann")
    await learner.caller.call(SET_LEARNING_SOURCE, switch)
    [off] = (await learner.caller.call(LIST_LEARNING_SOURCES, ListLearningSources())).sources
    assert (off.source, off.enabled, off.by) == ("payments", False, "ann")
    request = StartLearning(source="payments", files=(make_file("a.log", "a=1\n"),))
    started = await learner.caller.call(START_LEARNING, request)
    assert (started.job, started.skipped) == (None, "learning from the source 'payments' is switched off")
    assert (await start(learner, make_file("a.log", "a=1\n"), source="orders")).source == "orders"
    await learner.caller.call(SET_LEARNING_SOURCE, switch.model_copy(update={"enabled": True}))
    assert (await learner.caller.call(START_LEARNING, request)).job is not None


async def publish(bus: Bus, subject: str, event: LearningTrigger) -> None:
    await bus.jetstream.publish(subject, encode(event))


@pytest.mark.spec("knowledge-base.md § 学习流程 1 触发, 2 LLM提取")
async def test_events_start_jobs_of_their_task_if_learning_is_enabled(learner: Bus) -> None:
    off = LogParsed(text="a=0\n")
    parsed = LogParsed(text="a=1\n", enable_learning=True, source="payments")
    finished = RunFinished(files=(make_file("junit.xml", "t=flaky\n"),), enable_learning=True)
    await publish(learner, LOG_PARSED.subject("task-0"), off)
    await publish(learner, LOG_PARSED.subject("task-1"), parsed)
    await publish(learner, LOG_PARSED.subject("task-1"), parsed)
    await publish(learner, TEST_FINISHED.subject("run-7"), finished)
    jobs = await eventually(
        lambda: learner.caller.call(LIST_LEARNING_JOBS, ListLearningJobs()),
        lambda listed: len(listed.jobs) == 2 and {job.status for job in listed.jobs} == {LearningStatus.DONE},
        ENDS_WITHIN_S,
    )
    assert [
        (job.task, job.what, job.source, job.context.run) for job in sorted(jobs.jobs, key=lambda one: one.task)
    ] == [
        ("run-7", LearningInputKind.TESTS, "default", "run-7"),
        ("task-1", LearningInputKind.LOGS, "payments", ""),
    ]
    assert {(item.title, item.type, item.source, item.source_ref) for item in await export_pending(learner)} == {
        ("a=1", "project_config", "log_learning", "task-1"),
        ("t=flaky", "test_experience", "test_learning", "run-7"),
    }


async def test_an_event_without_content_becomes_a_dead_letter(learner: Bus) -> None:
    await learner.jetstream.publish(LOG_PARSED.subject("task-1"), b'{"enable_learning": true}')

    async def count() -> int:
        return (await learner.jetstream.stream_info(DEAD_LETTERS.name)).state.messages

    await eventually(count, bool)


async def test_the_test_runs_of_a_source_are_the_history_of_its_next_job(learner: Bus) -> None:
    for run in ("one", "two", "two"):
        await learn(learner, make_file("r", f"run {run}"), context=RunContext(commit=run))
    await learn(learner, make_file("r", "run other"), source="other suite")
    await learn(learner, make_file("h", "history"))
    assert await list_pending(learner) == ["runs=one,two"]


@pytest.mark.spec("knowledge-base.md § 学习流程 1 触发, 2 LLM提取")
@pytest.mark.spec("knowledge-base.md § 从日志解析中学习")
async def test_a_chat_model_adds_what_it_can_quote_and_the_report_says_what_it_did(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    item = {
        "type": "business_rule",
        "title": "Orders need a key",
        "content": "A call that places an order carries an idempotency key.",
        "subject": "orders",
        "predicate": "need",
        "evidence": ["orders=key"],
    }
    invented = item | {"title": "Orders are free", "content": "Nobody pays for anything.", "evidence": ["price=0"]}
    answer = json.dumps({"items": [item, invented]})
    async with (
        open_fake_retriever(bus),
        open_fake_model(bus, answer) as asked,
        open_learner(bus, make_settings(tmp_path, learning_model="auto"), "fake_extraction"),
    ):
        job = await learn(bus, make_file("a.log", "orders=key\n"))
        report = await bus.caller.call(GET_LEARNING_REPORT, GetLearningReport(id=job.id))
        assert report.model_use is not None
        assert (report.model_use.model, report.model_use.mode, report.model_use.tokens) == ("lab/small", "native", 400)
        assert (report.model_use.kept, report.model_use.dropped) == (1, 1)
        assert await list_pending(bus) == ["Orders need a key", "orders=key"]
        assert "orders=key" in asked[0].messages[-1].text
        assert not asked[0].disclosure.enabled


async def test_a_job_waits_for_a_search_that_is_away_without_reading_its_files_again(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    async with open_learner(bus, make_settings(tmp_path), "fake_extraction"):
        job = await start(bus, make_file("a.log", "a=1\n"))
        selector = LearningJobSelector(id=job.id)
        waiting = await eventually(
            lambda: bus.caller.call(GET_LEARNING_JOB, selector),
            lambda now: now.progress.phase is LearningPhase.STORING,
        )
        async with open_fake_retriever(bus):
            ended = await wait_for_end(bus, job)
    assert (ended.status, ended.new_items) == (LearningStatus.DONE, 1)
    assert ended.started_at == waiting.started_at
