"""What index and search read of the record, on SQLite and on PostgreSQL."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from skillbus.contracts.learner.index import (
    FindKnowledge,
    FoundItem,
    KnowledgeKey,
    KnowledgeMatched,
    ListKnowledgeDigests,
    ReadKnowledge,
)
from skillbus.contracts.learner.items import ArchiveKnowledge, UpdateKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef, KnowledgeStatus
from skillbus.contracts.learner.projects import SetKnowledgeParent
from skillbus.contracts.learner.usage import GiveFeedback
from skillbus.learner.adapters.sql.finder_record import SqlCandidates
from skillbus.learner.adapters.sql.index_record import SqlIndexRecord
from skillbus.learner.adapters.sql.usage_store import SqlUsage
from skillbus.learner.domain.index.finder import CandidateFinder
from skillbus.learner.domain.index.index_feed import IndexFeed
from skillbus.learner.domain.usage import UsageTracker

from .knowledge import BEGIN, Knowledge, fetch

HOSTILE = ("'; DROP TABLE knowledge; --", '" OR 1=1 --', "%_\\/*?[a-z]", ":id %(id)s $1 {id}")


async def find(knowledge: Knowledge, **wanted: object) -> KnowledgeMatched:
    finder = CandidateFinder(SqlCandidates(knowledge.database), knowledge.clock)
    return await finder.find_knowledge(FindKnowledge.model_validate(wanted))


async def found(knowledge: Knowledge, **wanted: object) -> list[str]:
    return [one.item.id for one in (await find(knowledge, **wanted)).items]


async def index(knowledge: Knowledge, *items: KnowledgeItem) -> None:
    """The index has them as they are."""
    refs = [KnowledgeRef(project=item.project, id=item.id, version=item.version) for item in items]
    await SqlIndexRecord(knowledge.database).mark_indexed(refs)


async def indexed(knowledge: Knowledge, **fields: object) -> KnowledgeItem:
    item = await knowledge.create(**fields)  # type: ignore[arg-type]  # fields of a draft, whatever their kind
    await index(knowledge, item)
    return item


async def only(knowledge: Knowledge, item: KnowledgeItem) -> FoundItem:
    (one,) = (await find(knowledge, ids=(item.id,))).items
    return one


async def test_candidates_come_whole_and_as_they_are_now(knowledge: Knowledge) -> None:
    item = await indexed(knowledge, tags=("auth",), scope="/api/live/*", valid_from=BEGIN, external_id="faq-1")
    assert (await only(knowledge, item)).item == item


async def test_an_archived_candidate_is_not_shown(knowledge: Knowledge) -> None:
    """knowledge-base.md § 删除知识条目"""
    item = await indexed(knowledge)
    await knowledge.base.archive_item(ArchiveKnowledge(id=item.id))
    assert await found(knowledge, ids=(item.id,)) == []


async def test_a_pending_candidate_is_not_shown(knowledge: Knowledge) -> None:
    item = await indexed(knowledge, status=KnowledgeStatus.PENDING)
    assert await found(knowledge, ids=(item.id,)) == []


async def test_the_reply_counts_the_active_items_of_the_effective_projects_that_the_index_lacks(
    knowledge: Knowledge,
) -> None:
    await indexed(knowledge, title="old")
    for project in ("default", "default", "team", "theirs"):
        await knowledge.create(project=project)
    await knowledge.create(status=KnowledgeStatus.PENDING)
    archived = await knowledge.create()
    await knowledge.base.archive_item(ArchiveKnowledge(id=archived.id))
    await knowledge.projects.set_parent(SetKnowledgeParent(project="team", parent="default"))
    assert (await find(knowledge)).index_behind == 2
    assert (await find(knowledge, project="team")).index_behind == 3
    assert (await find(knowledge, project="team", inherit=False)).index_behind == 1


async def test_a_candidate_that_the_index_has_at_an_older_version_comes_as_it_is_now(knowledge: Knowledge) -> None:
    item = await indexed(knowledge, title="old")
    await knowledge.base.update_item(UpdateKnowledge(id=item.id, title="new"))
    matched = await find(knowledge, ids=(item.id,))
    (one,) = matched.items
    assert (one.item.title, one.item.version, one.indexed_version) == ("new", 2, 1)
    assert matched.index_behind == 1


async def test_items_of_other_projects_are_not_seen(knowledge: Knowledge) -> None:
    theirs = await knowledge.create(project="theirs")
    assert await found(knowledge, ids=(theirs.id,)) == []
    assert await found(knowledge, project="theirs", ids=(theirs.id,)) == [theirs.id]


async def test_items_of_projects_above_are_seen_by_those_below_and_not_the_other_way_round(
    knowledge: Knowledge,
) -> None:
    company, team, member = [await knowledge.create(project=name) for name in ("company", "team", "member")]
    await knowledge.projects.set_parent(SetKnowledgeParent(project="team", parent="company"))
    await knowledge.projects.set_parent(SetKnowledgeParent(project="member", parent="team"))
    ids = (company.id, team.id, member.id)
    matched = await find(knowledge, project="member", ids=ids)
    assert [one.item.id for one in matched.items] == list(ids)
    assert matched.projects == ("member", "team", "company")
    assert await found(knowledge, project="team", ids=ids) == [company.id, team.id]
    assert await found(knowledge, project="company", ids=ids) == [company.id]
    assert await found(knowledge, project="member", ids=ids, inherit=False) == [member.id]
    await knowledge.projects.set_parent(SetKnowledgeParent(project="team"))
    assert await found(knowledge, project="member", ids=ids) == [team.id, member.id]


async def test_content_is_cut_where_it_is_longer_than_wanted(knowledge: Knowledge) -> None:
    item = await indexed(knowledge, content="直播电商接口")
    for characters, content, cut in (
        (2, "直播", True),
        (0, "", True),
        (6, "直播电商接口", False),
        (7, "直播电商接口", False),
    ):
        (one,) = (await find(knowledge, ids=(item.id,), content_characters=characters)).items
        assert (one.item.content, one.content_cut) == (content, cut)


@pytest.mark.spec("knowledge-base.md § 收集使用反馈")
async def test_votes_of_an_item_come_with_it(knowledge: Knowledge) -> None:
    item, other = await indexed(knowledge), await indexed(knowledge)
    usage = UsageTracker(SqlUsage(knowledge.database), knowledge.clock, timedelta(days=180))
    for actor in ("ann", "ben"):
        await usage.give_feedback(GiveFeedback(id=item.id, helpful=True, query="直播", actor=actor))
    await usage.give_feedback(GiveFeedback(id=item.id, helpful=False, query="other", actor="ann"))
    one = await only(knowledge, item)
    assert (one.helpful, one.unhelpful) == pytest.approx((2.0, 1.0), rel=1e-3)
    assert (await only(knowledge, other)).helpful == 0.0


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_hostile_words_are_words(knowledge: Knowledge, hostile: str) -> None:
    scope = hostile.replace("*", "x").replace("/", "-")
    item = await knowledge.create(tags=(hostile,), scope=scope)
    other = await knowledge.create(tags=("other",), scope="other")
    ids = (item.id, other.id)
    assert await found(knowledge, ids=ids, tags=(hostile,), all_tags=(hostile,)) == [item.id]
    assert await found(knowledge, ids=ids, scope=scope) == [item.id]


async def test_the_items_that_the_index_lacks_are_counted_by_a_partial_index(
    knowledge: Knowledge, request: pytest.FixtureRequest
) -> None:
    """Without it each search would walk all active items: 10 ms for 10,000."""
    if request.node.callspec.params["knowledge_url"] != "sqlite":
        pytest.skip("PostgreSQL chooses by its statistics")
    statement = (
        "EXPLAIN QUERY PLAN SELECT count(*) FROM knowledge WHERE project IN ('default') AND status = 'active' "
        "AND indexed_version < version"
    )
    plan = str(await fetch(knowledge, text(statement)))
    assert "knowledge_unindexed" in plan


async def test_items_are_read_as_they_are_now_whatever_their_status(knowledge: Knowledge) -> None:
    items = [await knowledge.create(project=name) for name in ("default", "theirs")]
    await knowledge.base.archive_item(ArchiveKnowledge(id=items[0].id))
    keys = [KnowledgeKey(project=item.project, id=item.id) for item in reversed(items)]
    wrong = KnowledgeKey(project="default", id=items[1].id)
    read = await reader(knowledge).read_items(ReadKnowledge(keys=(*keys, wrong, keys[0])))
    assert [(one.project, one.id, one.status) for one in read.items] == [
        ("theirs", items[1].id, KnowledgeStatus.ACTIVE),
        ("default", items[0].id, KnowledgeStatus.ARCHIVED),
    ]
    assert read.left == ()


async def test_items_that_do_not_fit_a_message_are_left(knowledge: Knowledge) -> None:
    items = [await knowledge.create(content="文" * 32_000) for _ in range(12)]
    keys = tuple(KnowledgeKey(project=item.project, id=item.id) for item in items)
    read = await reader(knowledge).read_items(ReadKnowledge(keys=keys))
    assert 1 < len(read.items) < len(items)
    assert (*(KnowledgeKey(project=one.project, id=one.id) for one in read.items), *read.left) == keys


async def test_digests_are_of_active_items_page_by_page(knowledge: Knowledge) -> None:
    made = [await knowledge.create(project=project) for project in ("b", "a", "b", "a", "a")]
    await index(knowledge, made[0])
    await knowledge.base.archive_item(ArchiveKnowledge(project="a", id=made[1].id))
    await knowledge.create(project="a", status=KnowledgeStatus.PENDING)
    expected = sorted((item.project, item.id) for item in made if item is not made[1])
    listed, after = list[tuple[str, str]](), None
    for _ in range(3):
        page = await reader(knowledge).list_digests(ListKnowledgeDigests(limit=2, after=after))
        listed += [(one.project, one.id) for one in page.items]
        if (after := page.next) is None:
            break
    assert listed == expected
    assert after is None
    (first,) = [
        one for one in (await reader(knowledge).list_digests(ListKnowledgeDigests(project="b"))).items if one.indexed
    ]
    assert (first.id, first.version, first.digest) == (made[0].id, 1, made[0].digest)


async def test_the_newest_version_that_the_index_has_is_kept(knowledge: Knowledge) -> None:
    item = await knowledge.create()
    for number in range(2):
        await knowledge.base.update_item(UpdateKnowledge(id=item.id, title=f"title {number}"))
    record = SqlIndexRecord(knowledge.database)
    for version in (2, 1, 2):
        await record.mark_indexed([KnowledgeRef(id=item.id, version=version)])
    assert (await only(knowledge, item)).indexed_version == 2
    await record.mark_indexed([KnowledgeRef(id=item.id, version=1), KnowledgeRef(id=item.id, version=3)])
    assert (await only(knowledge, item)).indexed_version == 3


async def test_a_version_that_an_item_never_had_says_nothing_of_those_to_come(knowledge: Knowledge) -> None:
    item = await knowledge.create()
    record = SqlIndexRecord(knowledge.database)
    await record.mark_indexed(
        [KnowledgeRef(id=item.id, version=7), KnowledgeRef(project="theirs", id=item.id, version=1)]
    )
    assert (await only(knowledge, item)).indexed_version == 0


async def test_nothing_that_the_index_has_is_nothing_to_write(knowledge: Knowledge) -> None:
    item, record = await knowledge.create(), SqlIndexRecord(knowledge.database)
    await record.mark_indexed([])
    await record.mark_indexed([KnowledgeRef(id="nobody", version=1)])
    assert (await only(knowledge, item)).indexed_version == 0


def reader(knowledge: Knowledge) -> IndexFeed:
    return IndexFeed(SqlIndexRecord(knowledge.database))
