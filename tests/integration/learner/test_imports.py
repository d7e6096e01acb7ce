"""Imports and exports, on SQLite and on PostgreSQL: each line by itself, all of them in one transaction."""

import asyncio
from datetime import UTC, datetime

import pytest
from pydantic import JsonValue
from sqlalchemy import func, select

from skillbus.contracts.learner.bulk import (
    MAX_ITEMS,
    ExportKnowledge,
    KnowledgeItemPut,
    KnowledgePut,
    KnowledgePutOutcome,
    PutKnowledge,
)
from skillbus.contracts.learner.items import ArchiveKnowledge, GetKnowledge, RestoreKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeChangeKind, KnowledgeItem, KnowledgeRef, KnowledgeStatus
from skillbus.contracts.learner.projects import ListKnowledgeAudit
from skillbus.contracts.learner.versions import ListKnowledgeVersions
from skillbus.learner.adapters.sql.import_store import SqlImports
from skillbus.learner.adapters.sql.index_record import SqlIndexRecord
from skillbus.learner.adapters.sql.tables import METADATA
from skillbus.learner.domain.bulk import Importer, ItemExporter
from skillbus.learner.domain.index.index_waiter import IndexWaiter

from .knowledge import Knowledge, fetch, knowledge_on, open_knowledge

CREATED, UPDATED = KnowledgePutOutcome.CREATED, KnowledgePutOutcome.UPDATED
UNCHANGED, REJECTED = KnowledgePutOutcome.UNCHANGED, KnowledgePutOutcome.REJECTED


def line(name: str | None = "faq-1", **fields: JsonValue) -> dict[str, JsonValue]:
    given: dict[str, JsonValue] = {"type": "business_rule", "title": "a title", "content": "some content"}
    return {**given, **({} if name is None else {"id": name}), **fields}


async def put(knowledge: Knowledge, *lines: JsonValue, **fields: object) -> KnowledgePut:
    importer = Importer(
        SqlImports(knowledge.database),
        IndexWaiter(0),
        knowledge.clock,
        on_write=lambda: knowledge.wrote.append(knowledge.clock.at),
    )
    return await importer.import_items(PutKnowledge.model_validate({"items": lines, **fields}))


async def results(
    knowledge: Knowledge, *lines: JsonValue, **fields: object
) -> list[tuple[KnowledgePutOutcome, int | None]]:
    return [(one.outcome, one.version) for one in (await put(knowledge, *lines, **fields)).results]


async def one(knowledge: Knowledge, given: JsonValue, **fields: object) -> KnowledgeItemPut:
    (result,) = (await put(knowledge, given, **fields)).results
    return result


async def get(knowledge: Knowledge, item: str | None, project: str = "default") -> KnowledgeItem:
    assert item is not None
    return await knowledge.base.get_item(GetKnowledge(project=project, id=item))


async def export(knowledge: Knowledge, **wanted: object) -> list[KnowledgeItem]:
    exporter = ItemExporter(SqlImports(knowledge.database), knowledge.clock)
    items, after = list[KnowledgeItem](), None
    while True:
        page = await exporter.export_page(ExportKnowledge.model_validate({"after": after, **wanted}))
        items += page.items
        if (after := page.next) is None:
            return items


async def rows(knowledge: Knowledge) -> dict[str, int]:
    return {
        name: (await fetch(knowledge, select(func.count()).select_from(table)))[0][0]
        for name, table in METADATA.tables.items()
    }


async def test_new_lines_become_items(knowledge: Knowledge) -> None:
    law = line("法#第一条", tags=["社会法"], scope="法", lang="zh", valid_from="2022-10-30")
    results = (await put(knowledge, law, line("faq-2", source="faq"), actor="ann", reason="the first load")).results
    assert [(result.outcome, result.external_id) for result in results] == [(CREATED, "法#第一条"), (CREATED, "faq-2")]
    first, second = [await get(knowledge, result.id) for result in results]
    assert (first.tags, first.scope, first.lang, first.source) == (("社会法",), "法", "zh", "import")
    assert first.valid_from == datetime(2022, 10, 30, tzinfo=UTC)
    assert (second.source, second.created_by, second.status) == ("faq", "ann", KnowledgeStatus.ACTIVE)


async def test_the_same_lines_again_change_nothing(knowledge: Knowledge) -> None:
    lines = [line(f"faq-{number}") for number in range(3)]
    await put(knowledge, *lines)
    before, wrote = await rows(knowledge), len(knowledge.wrote)
    assert await results(knowledge, *lines) == [(UNCHANGED, 1)] * 3
    assert await rows(knowledge) == before
    assert len(knowledge.wrote) == wrote


async def test_a_line_that_changed_is_a_new_version_with_its_history(knowledge: Knowledge) -> None:
    """knowledge-base.md § 更新知识条目, § 记录变更历史"""
    made = await one(knowledge, line(content="old"))
    again = await one(knowledge, line(content="new"), actor="ben", reason="release 12")
    assert (again.outcome, again.version, again.id) == (UPDATED, 2, made.id)
    versions = (await knowledge.browser.list_versions(ListKnowledgeVersions(id=str(made.id)))).versions
    assert [(v.change, v.by, v.reason, v.item.content) for v in versions] == [
        (KnowledgeChangeKind.UPDATED, "ben", "release 12", "new"),
        (KnowledgeChangeKind.CREATED, "anonymous", "", "old"),
    ]


async def test_what_a_line_does_not_name_stays_as_it_is(knowledge: Knowledge) -> None:
    item = await knowledge.create(external_id="faq-1", priority=9, tags=("kept",), owner="ann")
    result = await one(knowledge, line("faq-1", title="another"))
    now = await get(knowledge, result.id)
    assert (now.id, now.title, now.priority, now.tags, now.owner, now.source) == (
        item.id,
        "another",
        9,
        ("kept",),
        "ann",
        "manual",
    )


async def test_a_line_can_name_an_item_by_its_own_id(knowledge: Knowledge) -> None:
    item = await knowledge.create(title="old")
    result = await one(knowledge, line(item.id, title="new"))
    assert (result.outcome, result.id, result.external_id) == (UPDATED, item.id, None)


async def test_an_id_of_another_project_is_an_external_one(knowledge: Knowledge) -> None:
    theirs = await knowledge.create(project="theirs", title="theirs")
    result = await one(knowledge, line(theirs.id, title="ours"))
    assert (result.outcome, result.external_id) == (CREATED, theirs.id)
    assert result.id != theirs.id
    assert (await get(knowledge, theirs.id, "theirs")).title == "theirs"


async def test_of_lines_with_the_same_external_id_the_later_one_updates(knowledge: Knowledge) -> None:
    lines = [line(content=text) for text in ("first", "second", "second", "third")]
    put_once = (await put(knowledge, *lines)).results
    assert [(result.outcome, result.version) for result in put_once] == [
        (CREATED, 1),
        (UPDATED, 2),
        (UNCHANGED, 2),
        (UPDATED, 3),
    ]
    assert len({result.id for result in put_once}) == 1
    versions = (await knowledge.browser.list_versions(ListKnowledgeVersions(id=str(put_once[0].id)))).versions
    assert [version.item.content for version in versions] == ["third", "second", "first"]


async def test_an_external_id_can_pass_from_one_item_to_another(knowledge: Knowledge) -> None:
    item = await knowledge.create(external_id="faq-1")
    lines = line(item.id, external_id="faq-2"), line("faq-1", title="new"), line("faq-2", title="old")
    assert await results(knowledge, *lines) == [(UPDATED, 2), (CREATED, 1), (UPDATED, 3)]


async def test_an_external_id_that_another_item_has_is_refused(knowledge: Knowledge) -> None:
    item, other = await knowledge.create(external_id="faq-1"), await knowledge.create(external_id="faq-2")
    result = await one(knowledge, line(item.id, external_id="faq-2"))
    assert result.outcome is REJECTED
    assert other.id in str(result.error)


async def test_a_line_without_any_id_is_always_new(knowledge: Knowledge) -> None:
    assert await results(knowledge, line(None), line(None)) == [(CREATED, 1), (CREATED, 1)]


async def test_bad_lines_are_refused_alone(knowledge: Knowledge) -> None:
    lines: list[JsonValue] = [
        line("faq-1"),
        line("faq-2", title=""),
        "no object",
        line("faq-3", scope="../*"),
        line("faq-4"),
    ]
    bad = line("faq-5", valid_from="2026-01-02", valid_to="2026-01-01")
    put_all = (await put(knowledge, *lines, bad)).results
    assert [result.outcome for result in put_all] == [CREATED, REJECTED, REJECTED, REJECTED, CREATED, REJECTED]
    assert all((result.error is None) == (result.outcome is CREATED) for result in put_all)
    assert (await rows(knowledge))["knowledge"] == 2


async def test_a_dry_run_tells_the_same_and_writes_nothing(knowledge: Knowledge) -> None:
    await put(knowledge, line("faq-1"), line("faq-2"))
    lines = [line("faq-1"), line("faq-2", title="x"), line("faq-3"), line("faq-3", title="y"), line("faq-4", title="")]
    before = await rows(knowledge)
    told = await results(knowledge, *lines, dry_run=True)
    ids = [result.id is not None for result in (await put(knowledge, *lines, dry_run=True)).results]
    assert ids == [True, True, False, False, False]
    assert await rows(knowledge) == before
    assert told == await results(knowledge, *lines)
    assert told == [(UNCHANGED, 1), (UPDATED, 2), (CREATED, 1), (UPDATED, 2), (REJECTED, None)]


async def test_what_was_deleted_does_not_come_back_by_an_import(knowledge: Knowledge) -> None:
    made = await one(knowledge, line())
    await knowledge.base.archive_item(ArchiveKnowledge(id=str(made.id)))
    refused = await one(knowledge, line())
    assert refused.outcome is REJECTED
    assert "restore" in str(refused.error)
    await knowledge.base.restore_item(RestoreKnowledge(id=str(made.id)))
    assert (await one(knowledge, line())).outcome is UNCHANGED


async def test_new_items_can_wait_for_a_review(knowledge: Knowledge) -> None:
    lines = line("faq-1"), line("faq-2", status="active"), line("faq-3", status="archived")
    made = (await put(knowledge, *lines, status="pending")).results
    statuses = [(await get(knowledge, result.id)).status for result in made]
    assert statuses == [KnowledgeStatus.PENDING, KnowledgeStatus.PENDING, KnowledgeStatus.ARCHIVED]
    assert await results(knowledge, *lines[:2], status="active") == [(UNCHANGED, 1)] * 2
    assert (await get(knowledge, made[0].id)).status is KnowledgeStatus.PENDING


async def test_an_import_is_in_the_audit(knowledge: Knowledge) -> None:
    await put(knowledge, line("faq-1"), line("faq-2"), line("faq-3", title=""), actor="ann", reason="the first load")
    entries = (await knowledge.projects.list_audit(ListKnowledgeAudit())).entries
    assert [(entry.action, entry.actor) for entry in entries] == [("created", "ann")] * 2 + [("imported", "ann")]
    assert entries[-1].reason == "2 created, 1 rejected: the first load"


async def test_each_version_is_in_the_outbox(knowledge: Knowledge) -> None:
    await put(knowledge, line("faq-1"), line("faq-2"), line("faq-1", title="x"))
    assert (await rows(knowledge))["knowledge_outbox"] == 3
    assert len(knowledge.wrote) == 1


async def test_whether_the_index_has_all_of_them_is_told(knowledge: Knowledge) -> None:
    made = await put(knowledge, line())
    assert not made.indexed
    assert not (await put(knowledge, line())).indexed
    await SqlIndexRecord(knowledge.database).mark_indexed([KnowledgeRef(id=str(made.results[0].id), version=1)])
    assert (await put(knowledge, line())).indexed
    assert (await put(knowledge, line(title=""))).indexed


async def test_replicas_that_import_the_same_at_once_agree(knowledge: Knowledge, knowledge_url: str) -> None:
    lines = [line(f"faq-{number}") for number in range(20)]
    async with open_knowledge(knowledge_url) as other:
        both = await asyncio.gather(*(put(replica, *lines) for replica in (knowledge, other, knowledge, other)))
    for name in range(20):
        outcomes = sorted(done.results[name].outcome for done in both)
        assert outcomes == sorted([CREATED, UNCHANGED, UNCHANGED, UNCHANGED])
    assert (await rows(knowledge))["knowledge"] == 20


async def test_what_is_exported_and_imported_elsewhere_is_the_same(knowledge: Knowledge) -> None:
    await put(knowledge, *(line(f"faq-{number}", tags=[f"t{number}"], valid_to="2030-01-01") for number in range(4)))
    await knowledge.create(title="own", scope="/api/*", priority=9, owner="ann")
    await knowledge.create(title="waits", status=KnowledgeStatus.PENDING)
    archived = await knowledge.create(title="gone")
    await knowledge.base.archive_item(ArchiveKnowledge(id=archived.id))
    everything = {"statuses": tuple(KnowledgeStatus)}
    ours = await export(knowledge, limit=3, **everything)
    assert len(ours) == 7
    lines: list[JsonValue] = [item.model_dump(mode="json") for item in ours]

    done = await put(knowledge, *lines, project="elsewhere")
    assert {result.outcome for result in done.results} == {CREATED}
    theirs = await export(knowledge, project="elsewhere", **everything)
    assert [told(item) for item in theirs] == [told(item) for item in ours]
    assert [item.external_id for item in theirs] == [item.external_id or item.id for item in ours]
    again = await put(knowledge, *lines, project="elsewhere")
    assert {result.outcome for result in again.results} == {UNCHANGED}
    home = await put(knowledge, *lines)
    assert {result.outcome for result in home.results} == {UNCHANGED}


def told(item: KnowledgeItem) -> dict[str, object]:
    return item.model_dump(
        exclude={"id", "external_id", "project", "version", "created_at", "created_by", "updated_at", "updated_by"}
    )


async def test_an_export_is_of_the_statuses_and_types_that_are_wanted(knowledge: Knowledge) -> None:
    rule = await knowledge.create()
    config = await knowledge.create(type="project_config")
    pending = await knowledge.create(status=KnowledgeStatus.PENDING)
    assert [item.id for item in await export(knowledge)] == sorted([rule.id, config.id])
    assert [item.id for item in await export(knowledge, types=("project_config",))] == [config.id]
    assert [item.id for item in await export(knowledge, statuses=("pending",))] == [pending.id]
    assert await export(knowledge, project="theirs") == []


async def test_an_export_is_in_the_audit_once(knowledge: Knowledge) -> None:
    for _ in range(5):
        await knowledge.create()
    await export(knowledge, limit=2)
    entries = (await knowledge.projects.list_audit(ListKnowledgeAudit())).entries
    assert [entry.action for entry in entries].count("exported") == 1


async def test_pages_of_an_export_fit_a_message(knowledge: Knowledge) -> None:
    made = [await knowledge.create(content="文" * 32_000) for _ in range(10)]
    exporter = ItemExporter(SqlImports(knowledge.database), knowledge.clock)
    page = await exporter.export_page(ExportKnowledge())
    assert 0 < len(page.items) < len(made)
    assert page.next == page.items[-1].id
    assert len(await export(knowledge)) == len(made)


@pytest.mark.parametrize("hostile", ["'; DROP TABLE knowledge; --", ":id %(id)s $1 {id}", "<script>", "\u202e😀"])
async def test_hostile_words_come_back_as_they_were(knowledge: Knowledge, hostile: str) -> None:
    given = line(hostile, title=hostile, content=hostile, tags=[hostile], owner=hostile, source_ref=hostile)
    await put(knowledge, given)
    (item,) = await export(knowledge)
    texts = (item.external_id, item.title, item.content, item.owner, item.source_ref, *item.tags)
    assert set(texts) == {hostile}
    assert (await one(knowledge, given)).outcome is UNCHANGED


async def test_as_many_lines_as_a_request_may_hold_are_written(knowledge: Knowledge) -> None:
    made = await put(knowledge, *(line(f"faq-{number}", tags=["a", "b"]) for number in range(MAX_ITEMS)))
    assert [result.outcome for result in made.results] == [CREATED] * MAX_ITEMS
    updated = await put(knowledge, *(line(f"faq-{number}", title="x", tags=["c"]) for number in range(MAX_ITEMS)))
    assert [result.outcome for result in updated.results] == [UPDATED] * MAX_ITEMS


async def test_two_learners_on_one_database_see_what_each_other_imported(
    knowledge: Knowledge, knowledge_url: str
) -> None:
    await put(knowledge, line("faq-1"))
    assert await results(knowledge_on(knowledge.database), line("faq-1")) == [(UNCHANGED, 1)]
