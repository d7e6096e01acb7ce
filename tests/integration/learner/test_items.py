"""Items in the record, on SQLite and on PostgreSQL: their lifecycle, their history, and who is first."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner.items import ArchiveKnowledge, GetKnowledge, RestoreKnowledge, UpdateKnowledge
from skillbus.contracts.learner.knowledge import TEST_EXPERIENCE, KnowledgeChangeKind, KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.projects import ListKnowledgeAudit
from skillbus.contracts.learner.versions import DiffKnowledge, ListKnowledgeVersions, ReviewAction, ReviewKnowledge
from skillbus.learner.adapters.sql import tables
from skillbus.learner.domain.errors import (
    ConcurrentChangeError,
    ExternalIdTakenError,
    KeyReusedError,
    KnowledgeUnavailableError,
    LearnerError,
    OtherVersionError,
    UnfitError,
    UnknownItemError,
    UnknownVersionError,
    WrongStatusError,
)
from skillbus.learner.errors_on_the_wire import to_wire

from .knowledge import BEGIN, Knowledge, draft, execute, fetch, open_knowledge, open_replicas

NOBODY = "01890000-0000-7000-8000-000000000000"
HOSTILE = (
    "'; DROP TABLE knowledge; --",
    '" OR 1=1 --',
    "%_\\/*?[a-z]",
    ":id %(id)s $1 {id} {{ 7*7 }} ${7*7}",
    "<script>alert(1)</script>",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \u202e\u0001\ufeff é é 😀",
)


async def rows(knowledge: Knowledge, table: str) -> int:
    counted = await fetch(knowledge, select(func.count()).select_from(tables.METADATA.tables[table]))
    return int(counted[0][0])


async def get(knowledge: Knowledge, item: KnowledgeItem, **which: object) -> KnowledgeItem:
    return await knowledge.base.get_item(GetKnowledge.model_validate({"id": item.id, "project": item.project, **which}))


async def update(knowledge: Knowledge, item: KnowledgeItem, **changes: object) -> KnowledgeItem:
    request = UpdateKnowledge.model_validate({"id": item.id, "project": item.project, **changes})
    return (await knowledge.base.update_item(request)).item


async def archive(knowledge: Knowledge, item: KnowledgeItem) -> KnowledgeItem:
    return (await knowledge.base.archive_item(ArchiveKnowledge(id=item.id, actor="ann", reason="gone"))).item


@pytest.mark.spec("knowledge-base.md § 知识条目核心属性 (type, title, content, scope, status, tags)")
async def test_an_item_comes_back_as_it_was_written(knowledge: Knowledge) -> None:
    """knowledge-base.md § 手动创建知识条目"""
    moment = datetime(2025, 6, 7, 8, 9, 10, 11, tzinfo=UTC)
    made = await knowledge.create(
        type="test_experience",
        scope="/api/live/*",
        tags=("auth", "game-id", "auth"),
        priority=9,
        source="log_learning",
        source_ref="task-7",
        owner="team-live",
        lang="zh",
        valid_from=moment,
        valid_to=moment + timedelta(days=1),
        external_id="faq-1",
        actor="ann",
    )
    assert await get(knowledge, made) == made
    assert (made.status, made.version, made.tags) == (KnowledgeStatus.ACTIVE, 1, ("auth", "game-id"))
    assert (made.created_by, made.updated_by, made.created_at) == ("ann", "ann", made.updated_at)
    assert made.type == TEST_EXPERIENCE


async def test_each_change_leaves_an_announcement_and_wakes_who_tells_it(knowledge: Knowledge) -> None:
    made = await knowledge.create()
    await update(knowledge, made, title="another")
    await archive(knowledge, made)
    outbox = await fetch(knowledge, select(tables.OUTBOX).order_by(tables.OUTBOX.c.sequence))
    assert [(row.project, row.id, row.version) for row in outbox] == [("default", made.id, n) for n in (1, 2, 3)]
    assert len(knowledge.wrote) == 3


@pytest.mark.spec("knowledge-base.md § 更新知识条目")
@pytest.mark.spec("knowledge-base.md § 记录变更历史")
async def test_an_update_makes_the_next_version_and_keeps_the_one_before_whole(knowledge: Knowledge) -> None:
    """knowledge-base.md § 更新知识条目, § 记录变更历史"""
    first = await knowledge.create(tags=("a", "b"), actor="ann", reason="found in the log")
    second = await update(knowledge, first, content="缺少时返回 403。", tags=("b",), actor="bob", reason="release 12")
    assert (second.version, second.content, second.tags) == (2, "缺少时返回 403。", ("b",))
    assert (second.created_by, second.updated_by, second.created_at) == ("ann", "bob", first.created_at)
    assert second.digest != first.digest
    listed = await knowledge.browser.list_versions(ListKnowledgeVersions(id=first.id))
    said = [(v.version, v.change, v.by, v.reason, v.at) for v in listed.versions]
    assert said == [
        (2, KnowledgeChangeKind.UPDATED, "bob", "release 12", second.updated_at),
        (1, KnowledgeChangeKind.CREATED, "ann", "found in the log", first.created_at),
    ]
    assert [v.item for v in listed.versions] == [second, first]


async def test_what_changes_nothing_writes_nothing(knowledge: Knowledge) -> None:
    made = await knowledge.create(tags=("a",))
    again = await knowledge.base.update_item(UpdateKnowledge(id=made.id, title=made.title, tags=("a", "a")))
    assert (again.item, again.repeated) == (made, True)
    assert (await rows(knowledge, "knowledge_history"), await rows(knowledge, "knowledge_outbox")) == (1, 1)
    assert len(knowledge.wrote) == 1


async def test_fields_are_emptied_by_name(knowledge: Knowledge) -> None:
    made = await knowledge.create(valid_from=BEGIN, valid_to=BEGIN + timedelta(1), external_id="x")
    emptied = await update(knowledge, made, clear=("valid_from", "valid_to", "external_id"))
    assert (emptied.valid_from, emptied.valid_to, emptied.external_id) == (None, None, None)
    for wrong in ({"clear": ("title",)}, {"clear": ("valid_to",), "valid_to": BEGIN}):
        with pytest.raises(UnfitError):
            await update(knowledge, made, **wrong)


async def test_an_archived_item_is_kept_with_its_history_and_is_restored(knowledge: Knowledge) -> None:
    """knowledge-base.md § 删除知识条目"""
    made = await knowledge.create()
    gone = await archive(knowledge, made)
    assert (gone.status, gone.version, gone.content) == (KnowledgeStatus.ARCHIVED, 2, made.content)
    again = await knowledge.base.archive_item(ArchiveKnowledge(id=made.id))
    assert (again.item, again.repeated) == (gone, True)
    with pytest.raises(WrongStatusError):
        await update(knowledge, made, title="another")
    back = await knowledge.base.restore_item(RestoreKnowledge(id=made.id))
    assert (back.item.status, back.item.version, back.item.digest) == (KnowledgeStatus.ACTIVE, 3, made.digest)
    kinds = [
        version.change
        for version in (await knowledge.browser.list_versions(ListKnowledgeVersions(id=made.id))).versions
    ]
    assert kinds == [KnowledgeChangeKind.RESTORED, KnowledgeChangeKind.ARCHIVED, KnowledgeChangeKind.CREATED]


async def test_an_earlier_version_comes_back_as_a_new_one(knowledge: Knowledge) -> None:
    first = await knowledge.create(tags=("a", "b"), valid_to=BEGIN + timedelta(days=90))
    await update(knowledge, first, title="another", tags=("c",), clear=("valid_to",))
    await archive(knowledge, first)
    back = (await knowledge.base.restore_item(RestoreKnowledge(id=first.id, version=1, actor="bob"))).item
    assert (back.version, back.status, back.title, back.tags, back.digest) == (
        4,
        KnowledgeStatus.ACTIVE,
        first.title,
        ("a", "b"),
        first.digest,
    )
    newest = (await knowledge.browser.list_versions(ListKnowledgeVersions(id=first.id, limit=1))).versions[0]
    assert (newest.change, newest.by) == (KnowledgeChangeKind.REVERTED, "bob")
    again = await knowledge.base.restore_item(RestoreKnowledge(id=first.id, version=1))
    assert (again.repeated, again.item.version) == (True, 4)


async def test_an_earlier_version_does_not_spare_the_review(knowledge: Knowledge) -> None:
    made = await knowledge.create(status="pending")
    await update(knowledge, made, title="another")
    back = (await knowledge.base.restore_item(RestoreKnowledge(id=made.id, version=1))).item
    assert (back.status, back.title) == (KnowledgeStatus.PENDING, made.title)
    with pytest.raises(WrongStatusError):
        await knowledge.base.restore_item(RestoreKnowledge(id=made.id))


async def test_it_is_read_at_a_version_and_as_of_a_time(knowledge: Knowledge) -> None:
    """knowledge-base.md § 查看历史版本"""
    first = await knowledge.create()
    second = await update(knowledge, first, title="second")
    third = await archive(knowledge, first)
    assert [await get(knowledge, first, version=n) for n in (1, 2, 3)] == [first, second, third]
    just_before = second.updated_at - timedelta(microseconds=1)
    moments = (first.updated_at, just_before, second.updated_at, datetime(9999, 1, 1, tzinfo=UTC))
    assert [await get(knowledge, first, as_of=at) for at in moments] == [first, first, second, third]
    for unknown in ({"version": 4}, {"as_of": BEGIN - timedelta(days=1)}, {"as_of": datetime.min.replace(tzinfo=UTC)}):
        with pytest.raises(UnknownVersionError):
            await get(knowledge, first, **unknown)
    with pytest.raises(UnfitError):
        await get(knowledge, first, version=1, as_of=BEGIN)


async def test_versions_stay_in_order_when_the_clock_goes_back(knowledge: Knowledge) -> None:
    first = await knowledge.create()
    knowledge.clock.at = BEGIN - timedelta(days=1)
    second = await update(knowledge, first, title="second")
    assert second.updated_at == first.updated_at
    assert await get(knowledge, first, as_of=first.updated_at) == second


async def test_who_expects_another_version_is_refused(knowledge: Knowledge) -> None:
    made = await knowledge.create()
    await update(knowledge, made, title="second", expected_version=1)
    for old in (
        knowledge.base.update_item(UpdateKnowledge(id=made.id, title="third", expected_version=1)),
        knowledge.base.archive_item(ArchiveKnowledge(id=made.id, expected_version=1)),
        knowledge.base.restore_item(RestoreKnowledge(id=made.id, version=1, expected_version=9)),
    ):
        with pytest.raises(OtherVersionError) as refused:
            await old
        assert (refused.value.version, refused.value.code) == (2, ErrorCode.PRECONDITION_FAILED)
    assert (await get(knowledge, made)).version == 2


async def test_of_several_replicas_that_expect_a_version_one_writes_the_next(
    knowledge: Knowledge, knowledge_url: str
) -> None:
    made = await knowledge.create()
    async with open_replicas(knowledge_url, 4) as replicas:
        writes = [update(replica, made, title=f"by {n}", expected_version=1) for n, replica in enumerate(replicas)]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["KnowledgeItem"] + ["OtherVersionError"] * 3
    assert (await get(knowledge, made)).version == 2


async def test_no_change_of_several_replicas_is_lost(knowledge: Knowledge, knowledge_url: str) -> None:
    made = await knowledge.create()
    async with open_replicas(knowledge_url, 3) as replicas:
        async with asyncio.timeout(20):
            items = await asyncio.gather(
                *(update(replica, made, title=f"{n} {step}") for n, replica in enumerate(replicas) for step in range(5))
            )
    assert sorted(item.version for item in items) == list(range(2, 17))
    listed = await knowledge.browser.list_versions(ListKnowledgeVersions(id=made.id))
    assert {version.item.title for version in listed.versions} == {made.title, *(item.title for item in items)}
    assert (await rows(knowledge, "knowledge_audit"), await rows(knowledge, "knowledge_outbox")) == (16, 16)


async def test_an_external_id_is_one_item_s_in_a_project(knowledge: Knowledge) -> None:
    made = await knowledge.create(external_id="faq-1")
    other = await knowledge.create()
    await knowledge.create(external_id="faq-1", project="other")
    for refused in (
        knowledge.create(external_id="faq-1"),
        update(knowledge, other, external_id="faq-1"),
    ):
        with pytest.raises(ExternalIdTakenError, match=made.id):
            await refused
    await update(knowledge, made, clear=("external_id",))
    assert (await update(knowledge, other, external_id="faq-1")).external_id == "faq-1"
    with pytest.raises(ExternalIdTakenError):
        await knowledge.base.restore_item(RestoreKnowledge(id=made.id, version=1))


async def test_of_many_who_take_an_external_id_at_once_one_has_it(knowledge: Knowledge, knowledge_url: str) -> None:
    async with open_replicas(knowledge_url, 4) as replicas:
        made = [replica.create(external_id="faq-1") for replica in replicas for _ in range(3)]
        outcomes = await asyncio.gather(*made, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ExternalIdTakenError"] * 11 + ["KnowledgeItem"]


async def test_a_key_makes_an_item_once(knowledge: Knowledge) -> None:
    request = draft(idempotency_key="k-1", actor="ann")
    first = await knowledge.base.create_item(request)
    await update(knowledge, first.item, title="changed since")
    again = await knowledge.base.create_item(request)
    assert (again.item, again.repeated, first.repeated) == (first.item, True, False)
    assert await rows(knowledge, "knowledge") == 1
    with pytest.raises(KeyReusedError):
        await knowledge.base.create_item(draft(idempotency_key="k-1", title="another"))
    elsewhere = await knowledge.base.create_item(draft(idempotency_key="k-1", project="other"))
    assert not elsewhere.repeated


async def test_a_key_is_free_again_after_a_day(knowledge: Knowledge) -> None:
    first = await knowledge.base.create_item(draft(idempotency_key="k-1"))
    knowledge.clock.at += timedelta(days=1)
    second = await knowledge.base.create_item(draft(idempotency_key="k-1", title="another"))
    assert (second.repeated, second.item.id != first.item.id) == (False, True)
    assert await rows(knowledge, "knowledge_idempotency") == 1


async def test_of_many_requests_with_one_key_at_once_one_item_is_made(knowledge: Knowledge, knowledge_url: str) -> None:
    async with open_replicas(knowledge_url, 4) as replicas:
        request = draft(idempotency_key="k-1")
        written = await asyncio.gather(*(replica.base.create_item(request) for replica in replicas for _ in range(3)))
    assert len({answer.item.id for answer in written}) == 1
    assert sum(not answer.repeated for answer in written) == 1
    assert (await rows(knowledge, "knowledge"), await rows(knowledge, "knowledge_outbox")) == (1, 1)


async def test_a_key_whose_item_was_refused_stays_free(knowledge: Knowledge) -> None:
    await knowledge.create(external_id="x")
    with pytest.raises(ExternalIdTakenError):
        await knowledge.base.create_item(draft(idempotency_key="k-1", external_id="x"))
    assert not (await knowledge.base.create_item(draft(idempotency_key="k-1"))).repeated


@pytest.mark.spec("knowledge-base.md § 拒绝无效知识")
@pytest.mark.spec("knowledge-base.md § 批量审核")
async def test_pending_items_are_approved_and_rejected_each_by_itself(knowledge: Knowledge) -> None:
    """knowledge-base.md § 审核待确认知识, § 拒绝无效知识, § 批量审核"""
    one, two = [await knowledge.create(status="pending", external_id=name) for name in ("one", "two")]
    done = await knowledge.create()
    ids = (one.id, NOBODY, done.id, one.id)
    approved = await knowledge.reviews.review_items(ReviewKnowledge(ids=ids, action=ReviewAction.APPROVE, actor="ann"))
    assert [(result.id, result.ok, result.status, result.version, result.code) for result in approved.results] == [
        (one.id, True, KnowledgeStatus.ACTIVE, 2, None),
        (NOBODY, False, None, None, ErrorCode.NOT_FOUND),
        (done.id, False, None, None, ErrorCode.CONFLICT),
        (one.id, False, None, None, ErrorCode.CONFLICT),
    ]
    reject = ReviewKnowledge(ids=(two.id,), action=ReviewAction.REJECT, actor="bob", reason="not true")
    [rejected] = (await knowledge.reviews.review_items(reject)).results
    assert (rejected.status, rejected.version) == (KnowledgeStatus.ARCHIVED, 2)
    newest = (await knowledge.browser.list_versions(ListKnowledgeVersions(id=two.id))).versions[0]
    assert (newest.change, newest.by, newest.reason) == (KnowledgeChangeKind.REJECTED, "bob", "not true")
    assert (await get(knowledge, one)).updated_by == "ann"
    assert await rows(knowledge, "knowledge_outbox") == 5


async def test_two_who_review_the_same_at_once_do_it_once(knowledge: Knowledge, knowledge_url: str) -> None:
    ids = [(await knowledge.create(status="pending")).id for _ in range(20)]
    approve, reject = (
        ReviewKnowledge(ids=tuple(ids), action=ReviewAction.APPROVE),
        ReviewKnowledge(ids=tuple(reversed(ids)), action=ReviewAction.REJECT),
    )
    async with open_replicas(knowledge_url, 1) as [other]:
        both = await asyncio.gather(knowledge.reviews.review_items(approve), other.reviews.review_items(reject))
    assert sorted(answer.succeeded for answer in both) == [0, 20]
    assert await rows(knowledge, "knowledge_audit") == 40


async def test_the_audit_says_who_did_what_in_its_order(knowledge: Knowledge) -> None:
    made = await knowledge.create(actor="ann", reason="first")
    changed = await update(knowledge, made, title="second", actor="bob")
    await knowledge.create(project="other")
    listed = await knowledge.projects.list_audit(ListKnowledgeAudit(limit=1))
    rest = await knowledge.projects.list_audit(ListKnowledgeAudit(after=listed.next or 0))
    entries = (*listed.entries, *rest.entries)
    assert [(e.actor, e.action, e.id, e.version, e.digest, e.reason) for e in entries] == [
        ("ann", "created", made.id, 1, made.digest, "first"),
        ("bob", "updated", made.id, 2, changed.digest, ""),
    ]
    assert rest.next is None
    assert (await knowledge.projects.list_audit(ListKnowledgeAudit(id=NOBODY))).entries == ()


async def test_nothing_of_another_project_is_there(knowledge: Knowledge) -> None:
    made = await knowledge.create(status="pending", project="theirs")
    for request in (
        knowledge.base.get_item(GetKnowledge(id=made.id)),
        knowledge.base.get_item(GetKnowledge(id=made.id, version=1)),
        knowledge.base.get_item(GetKnowledge(id=made.id, as_of=datetime.now(UTC))),
        knowledge.base.update_item(UpdateKnowledge(id=made.id, title="ours")),
        knowledge.base.archive_item(ArchiveKnowledge(id=made.id)),
        knowledge.base.restore_item(RestoreKnowledge(id=made.id)),
        knowledge.base.restore_item(RestoreKnowledge(id=made.id, version=1)),
        knowledge.browser.list_versions(ListKnowledgeVersions(id=made.id)),
        knowledge.browser.diff_versions(DiffKnowledge(id=made.id, from_version=1, to_version=1)),
    ):
        with pytest.raises(UnknownItemError):
            await request
    review = ReviewKnowledge(ids=(made.id,), action=ReviewAction.APPROVE)
    [reviewed] = (await knowledge.reviews.review_items(review)).results
    assert (reviewed.ok, reviewed.code) == (False, ErrorCode.NOT_FOUND)
    assert (await knowledge.projects.list_audit(ListKnowledgeAudit(id=made.id))).entries == ()
    assert (await get(knowledge, made)) == made


async def test_a_failure_in_the_middle_leaves_nothing_of_the_change(knowledge: Knowledge) -> None:
    made = await knowledge.create()
    await execute(knowledge, "ALTER TABLE knowledge_audit RENAME TO elsewhere")
    with pytest.raises(KnowledgeUnavailableError):
        await update(knowledge, made, title="second", tags=("new",))
    await execute(knowledge, "ALTER TABLE elsewhere RENAME TO knowledge_audit")
    assert await get(knowledge, made) == made
    counts = [await rows(knowledge, table) for table in ("knowledge_history", "knowledge_outbox", "knowledge_tags")]
    assert counts == [1, 1, 0]


@pytest.mark.parametrize(
    ("state", "code"),
    [("query_only = ON", ErrorCode.UNAVAILABLE), ("max_page_count = 1", ErrorCode.STORAGE_FULL)],
    ids=["read-only", "full"],
)
async def test_a_record_that_cannot_be_written_says_so_and_is_read_all_the_same(
    tmp_path: Path, state: str, code: ErrorCode
) -> None:
    async with open_knowledge(f"sqlite:///{tmp_path}/knowledge.db") as knowledge:
        made = await knowledge.create()
        await execute(knowledge, f"PRAGMA {state}")
        with pytest.raises(KnowledgeUnavailableError) as refused:
            await knowledge.create(content="x" * 30_000)
        wire = to_wire(refused.value)
        assert wire is not None
        assert (wire.code, wire.retryable) == (code, code is ErrorCode.UNAVAILABLE)
        assert await get(knowledge, made) == made
        assert await rows(knowledge, "knowledge_outbox") == 1


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_hostile_strings_come_back_as_they_were(knowledge: Knowledge, hostile: str) -> None:
    made = await knowledge.create(
        title=hostile,
        content=hostile,
        tags=(hostile,),
        source_ref=hostile,
        owner=hostile,
        lang=hostile[:35],
        external_id=hostile,
        actor=hostile,
        reason=hostile,
        idempotency_key=hostile,
    )
    changed = await update(knowledge, made, content=f"{hostile}!", actor=hostile, reason=hostile)
    found = await get(knowledge, made)
    versions = (await knowledge.browser.list_versions(ListKnowledgeVersions(id=made.id))).versions
    assert found == changed
    assert (found.title, found.tags, found.external_id) == (made.title, made.tags, hostile)
    assert [(version.by, version.reason) for version in versions] == [(made.updated_by, hostile)] * 2
    assert [version.item for version in versions] == [changed, made]


def test_errors_tell_whether_the_same_may_succeed_later() -> None:
    assert ConcurrentChangeError.retryable
    assert KnowledgeUnavailableError.retryable
    assert not LearnerError.retryable
