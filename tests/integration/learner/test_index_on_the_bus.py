"""What changes is told to the index, and what the index has is known, by the bus."""

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pydantic import JsonValue, SecretStr

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.events import publish_event
from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.bulk import EXPORT_KNOWLEDGE, PUT_KNOWLEDGE, ExportKnowledge, KnowledgePut, PutKnowledge
from skillbus.contracts.learner.index import (
    FIND_KNOWLEDGE,
    LIST_KNOWLEDGE_DIGESTS,
    READ_KNOWLEDGE,
    FindKnowledge,
    KnowledgeKey,
    ListKnowledgeDigests,
    ReadKnowledge,
)
from skillbus.contracts.learner.items import (
    ARCHIVE_KNOWLEDGE,
    CREATE_KNOWLEDGE,
    UPDATE_KNOWLEDGE,
    ArchiveKnowledge,
    KnowledgeWritten,
    UpdateKnowledge,
)
from skillbus.contracts.learner.knowledge import KnowledgeRef
from skillbus.contracts.learner.usage import (
    GET_KNOWLEDGE_STATS,
    GET_KNOWLEDGE_USAGE,
    GIVE_FEEDBACK,
    KNOWLEDGE_USED,
    AnsweredRequest,
    GetKnowledgeStats,
    GetKnowledgeUsage,
    GiveFeedback,
    KnowledgeUse,
    KnowledgeUsed,
)
from skillbus.contracts.learner.versions import REVIEW_KNOWLEDGE, ReviewAction, ReviewKnowledge
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner

from .fake_index import FakeIndex, open_fake_index
from .knowledge import BEGIN, draft, open_knowledge


def settings(folder: Path, wait_indexed_s: float = 5.0) -> LearnerSettings:
    return LearnerSettings(
        database_url=SecretStr(f"sqlite:///{folder / 'knowledge.db'}"), data=folder, wait_indexed_s=wait_indexed_s
    )


@pytest.fixture
async def index(bus: Bus) -> AsyncGenerator[FakeIndex]:
    async with open_fake_index(bus) as opened:
        yield opened


@pytest.fixture
async def patient(bus: Bus, index: FakeIndex, tmp_path: Path) -> AsyncGenerator[Bus]:
    """The bus of a learner that waits for the index as long as a test may take, beside an index that answers."""
    async with open_learner(bus, settings(tmp_path)):
        yield bus


async def create(bus: Bus, **fields: object) -> KnowledgeWritten:
    return await bus.caller.call(CREATE_KNOWLEDGE, draft(**fields))


async def put(bus: Bus, *titles: str) -> KnowledgePut:
    lines = [{"id": title, "type": "module_context", "title": title, "content": title} for title in titles]
    return await bus.caller.call(PUT_KNOWLEDGE, PutKnowledge(items=tuple(lines)))


async def indexed(bus: Bus) -> dict[str, bool]:
    page = await bus.caller.call(LIST_KNOWLEDGE_DIGESTS, ListKnowledgeDigests())
    return {one.id: one.indexed for one in page.items}


async def test_what_is_written_is_indexed_by_the_reply(patient: Bus, index: FakeIndex) -> None:
    """knowledge-base.md § 手动创建知识条目"""
    made = await create(patient)
    assert made.indexed
    assert await index.refs() == [(made.item.id, 1)]


async def test_each_change_is_told(patient: Bus, index: FakeIndex) -> None:
    """knowledge-base.md § 更新知识条目, § 删除知识条目"""
    item = (await create(patient)).item
    assert (await patient.caller.call(UPDATE_KNOWLEDGE, UpdateKnowledge(id=item.id, title="another"))).indexed
    assert (await patient.caller.call(ARCHIVE_KNOWLEDGE, ArchiveKnowledge(id=item.id))).indexed
    assert await index.refs() == [(item.id, 1), (item.id, 2), (item.id, 3)]


async def test_an_import_is_told_in_large_events_and_awaited(patient: Bus, index: FakeIndex) -> None:
    done = await put(patient, *(f"faq-{number}" for number in range(200)))
    assert done.indexed
    assert len(await index.refs()) == 200
    assert len(index.heard) == 4
    assert (await put(patient, "faq-0")).indexed


async def test_an_import_waits_as_long_as_it_asks_and_counts_what_the_index_lacks(bus: Bus, tmp_path: Path) -> None:
    async with open_fake_index(bus, answers=False) as index, open_learner(bus, settings(tmp_path, wait_indexed_s=0)):
        lines: list[JsonValue] = [
            {"id": name, "type": "module_context", "title": name, "content": name} for name in ("a", "b", "c")
        ]
        at_once = await bus.caller.call(PUT_KNOWLEDGE, PutKnowledge(items=tuple(lines)))
        assert (at_once.indexed, at_once.unindexed) == (False, 3)
        await index.has([KnowledgeRef(id=str(at_once.results[0].id), version=1)])
        await eventually(lambda: indexed(bus), lambda found: sum(found.values()) == 1)
        lines[1] = {"id": "b", "type": "module_context", "title": "another", "content": "b"}
        waiting = asyncio.create_task(
            bus.caller.call(PUT_KNOWLEDGE, PutKnowledge(items=tuple(lines), wait_indexed_s=30))
        )
        await eventually(index.refs, lambda refs: (at_once.results[1].id, 2) in refs)
        await index.has(
            [
                KnowledgeRef(id=str(one.id), version=version)
                for one, version in zip(at_once.results, (1, 2, 1), strict=True)
            ]
        )
        async with asyncio.timeout(5):
            done = await waiting
        assert (done.indexed, done.unindexed) == (True, 0)


@pytest.mark.spec("knowledge-base.md § 批量审核")
async def test_a_review_is_indexed_by_the_reply(patient: Bus) -> None:
    ids = [(await create(patient, title=title, status="pending")).item.id for title in ("one", "two")]
    review = ReviewKnowledge(ids=tuple(ids), action=ReviewAction.APPROVE)
    reply = await patient.caller.call(REVIEW_KNOWLEDGE, review)
    assert (reply.succeeded, reply.indexed) == (2, True)


async def test_where_no_index_answers_the_reply_comes_in_time_and_says_so(bus: Bus, tmp_path: Path) -> None:
    async with open_learner(bus, settings(tmp_path, wait_indexed_s=0.1)):
        begun = time.monotonic()
        made = await create(bus)
        assert not made.indexed
        assert time.monotonic() - begun < 2
        found = await bus.caller.call(FIND_KNOWLEDGE, FindKnowledge(ids=(made.item.id,)))
        assert [(one.item.id, one.indexed_version) for one in found.items] == [(made.item.id, 0)]
        assert found.index_behind == 1


async def test_every_replica_hears_what_the_index_has(bus: Bus, bus_settings: BusSettings, tmp_path: Path) -> None:
    async with (
        open_bus(bus_settings, "replica", CollectorRegistry()) as second,
        open_learner(bus, settings(tmp_path)),
        open_learner(second, settings(tmp_path)),
        open_fake_index(bus) as index,
    ):
        made = await asyncio.gather(*(create(bus, title=f"title {number}") for number in range(20)))
        assert all(one.indexed for one in made)
        assert sorted(set(await index.refs())) == sorted((one.item.id, 1) for one in made)
        await eventually(lambda: indexed(bus), lambda found: len(found) == 20 and all(found.values()))


async def test_what_the_index_says_twice_and_out_of_order_leaves_the_newest(bus: Bus, tmp_path: Path) -> None:
    async with open_fake_index(bus, answers=False) as index, open_learner(bus, settings(tmp_path, wait_indexed_s=0)):
        item = (await create(bus)).item
        await bus.caller.call(UPDATE_KNOWLEDGE, UpdateKnowledge(id=item.id, title="another"))
        for version in (2, 1, 2):
            await index.has([KnowledgeRef(id=item.id, version=version)])
        await eventually(lambda: indexed(bus), lambda found: found[item.id])
        assert (await bus.caller.call(FIND_KNOWLEDGE, FindKnowledge(ids=(item.id,)))).items[0].indexed_version == 2


async def test_what_was_written_and_not_told_is_told_after_the_start(bus: Bus, tmp_path: Path) -> None:
    async with open_knowledge(settings(tmp_path).record_url()) as killed:  # it has no relay
        item = await killed.create()
    async with open_fake_index(bus) as index, open_learner(bus, settings(tmp_path)):
        await eventually(index.refs, lambda refs: refs == [(item.id, 1)])
        await eventually(lambda: indexed(bus), lambda found: found == {item.id: True})


async def test_the_index_reads_items_as_they_are_now(patient: Bus) -> None:
    item = (await create(patient)).item
    await patient.caller.call(UPDATE_KNOWLEDGE, UpdateKnowledge(id=item.id, title="another"))
    keys = (KnowledgeKey(project="default", id=item.id), KnowledgeKey(project="default", id="nobody"))
    read = await patient.caller.call(READ_KNOWLEDGE, ReadKnowledge(keys=keys))
    assert [(one.id, one.title, one.version) for one in read.items] == [(item.id, "another", 2)]


async def test_uses_and_feedback_are_counted(patient: Bus) -> None:
    """knowledge-base.md § 记录使用情况, § 收集使用反馈"""
    item = (await create(patient)).item
    built = AnsweredRequest(
        request_id="r1",
        scene="test_generation",
        query="直播",
        applied=True,
        at=BEGIN,
        uses=(KnowledgeUse(id=item.id, version=1, position=2),),
    )
    searched = AnsweredRequest(request_id="r2", query="游戏", at=BEGIN)
    used = KnowledgeUsed(requests=(built, searched))
    for number in range(2):  # told twice: by a retriever that did not hear the stream's word
        await publish_event(
            patient, KNOWLEDGE_USED, used, identity="default", message_id=f"used-{number}", project="default"
        )
    vote = GiveFeedback(id=item.id, helpful=True, query="直播", actor="ann")
    said = await patient.caller.call(GIVE_FEEDBACK, vote)
    assert (said.helpful, said.unhelpful) == (1, 0)

    async def usage() -> tuple[int, int, float | None, dict[str, int]]:
        now = await patient.caller.call(GET_KNOWLEDGE_USAGE, GetKnowledgeUsage(id=item.id))
        return now.shown, now.applied, now.mean_position, now.scenes

    await eventually(usage, lambda now: now == (0, 1, 2.0, {"test_generation": 1}))
    stats = await patient.caller.call(GET_KNOWLEDGE_STATS, GetKnowledgeStats())
    assert (stats.total, stats.contexts, stats.searches) == (1, 1, 1)
    assert [one.id for one in stats.most_used] == [item.id]


async def test_what_is_of_another_project_is_not_found(patient: Bus) -> None:
    item = (await create(patient, project="theirs")).item
    with pytest.raises(RequestError) as refused:
        await patient.caller.call(GIVE_FEEDBACK, GiveFeedback(id=item.id, helpful=True))
    assert refused.value.code is ErrorCode.NOT_FOUND
    with pytest.raises(RequestError) as refused:
        await patient.caller.call(GET_KNOWLEDGE_USAGE, GetKnowledgeUsage(id=item.id))
    assert refused.value.code is ErrorCode.NOT_FOUND
    assert not (await patient.caller.call(FIND_KNOWLEDGE, FindKnowledge(ids=(item.id,)))).items
    assert not (await patient.caller.call(EXPORT_KNOWLEDGE, ExportKnowledge())).items
    key = KnowledgeKey(project="default", id=item.id)
    assert not (await patient.caller.call(READ_KNOWLEDGE, ReadKnowledge(keys=(key,)))).items
