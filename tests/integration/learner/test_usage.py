"""Uses, feedback and reports, on SQLite and on PostgreSQL."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, timedelta

import pytest
from sqlalchemy import func, select

from skillbus.contracts.learner.index import FindKnowledge
from skillbus.contracts.learner.items import ArchiveKnowledge
from skillbus.contracts.learner.knowledge import TEST_EXPERIENCE, KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.projects import SetKnowledgeParent
from skillbus.contracts.learner.usage import (
    AnsweredRequest,
    GetKnowledgeStats,
    GetKnowledgeUsage,
    GiveFeedback,
    ItemUsage,
    KnowledgeStats,
    KnowledgeUse,
    KnowledgeUsed,
)
from skillbus.learner.adapters.sql.finder_record import SqlCandidates
from skillbus.learner.adapters.sql.tables import FEEDBACK, REQUESTS, USES
from skillbus.learner.adapters.sql.usage_store import VOTES_OF_AN_ITEM, SqlUsage
from skillbus.learner.domain.errors import UnknownItemError
from skillbus.learner.domain.usage import UsageTracker, estimate_rate, hash_query

from .knowledge import BEGIN, Knowledge, fetch

DAY = timedelta(days=1)
KEPT = 180 * DAY


def usage(knowledge: Knowledge) -> UsageTracker:
    return UsageTracker(SqlUsage(knowledge.database), knowledge.clock, KEPT)


def answered(
    knowledge: Knowledge, request: str, *items: KnowledgeItem, age: timedelta = timedelta(), **fields: object
) -> AnsweredRequest:
    uses = [KnowledgeUse(id=item.id, project=item.project, version=1, position=at) for at, item in enumerate(items, 1)]
    said = {"request_id": request, "query": "直播", "at": knowledge.clock.at - age, "uses": uses, **fields}
    return AnsweredRequest.model_validate(said)


async def use(
    knowledge: Knowledge,
    request: str,
    *items: KnowledgeItem,
    project: str = "default",
    age: timedelta = timedelta(),
    **fields: object,
) -> None:
    one = answered(knowledge, request, *items, age=age, **fields)
    await SqlUsage(knowledge.database).count_uses(KnowledgeUsed(project=project, requests=(one,)))


async def vote(knowledge: Knowledge, item: KnowledgeItem, helpful: bool, **fields: object) -> ItemUsage:
    said = {"id": item.id, "project": item.project, "helpful": helpful, "actor": "ann", "query": "直播", **fields}
    return await usage(knowledge).give_feedback(GiveFeedback.model_validate(said))


async def of(knowledge: Knowledge, item: KnowledgeItem) -> ItemUsage:
    return await SqlUsage(knowledge.database).get_usage(GetKnowledgeUsage(project=item.project, id=item.id))


async def stats(knowledge: Knowledge, **asked: object) -> KnowledgeStats:
    return await usage(knowledge).get_stats(GetKnowledgeStats.model_validate(asked))


def ids(report: Sequence[ItemUsage]) -> list[str]:
    return [one.id for one in report]


async def test_an_item_that_nobody_used_has_no_numbers(knowledge: Knowledge) -> None:
    item = await knowledge.create()
    assert await of(knowledge, item) == ItemUsage(id=item.id, title=item.title)


@pytest.mark.spec("knowledge-base.md § 记录使用情况")
async def test_uses_are_counted_by_scene_and_place(knowledge: Knowledge) -> None:
    """knowledge-base.md § 记录使用情况"""
    first, second = await knowledge.create(), await knowledge.create()
    await use(knowledge, "r1", first, second)
    await use(knowledge, "r2", second, first, age=DAY)
    await use(knowledge, "r3", second, first, applied=True, scene="test_generation", age=2 * DAY)
    now = await of(knowledge, first)
    assert (now.shown, now.applied, now.scenes) == (2, 1, {"search": 2, "test_generation": 1})
    assert now.mean_position == pytest.approx(5 / 3)
    assert now.last_used_at == knowledge.clock.at


async def test_a_request_that_is_told_again_counts_once(knowledge: Knowledge) -> None:
    item = await knowledge.create()
    for _ in range(3):
        await use(knowledge, "r1", item)
    assert (await of(knowledge, item)).shown == 1
    assert (await stats(knowledge)).searches == 1


async def test_of_many_requests_that_are_told_together_each_counts_once_also_beside_those_that_are_known(
    knowledge: Knowledge,
) -> None:
    item, other = await knowledge.create(), await knowledge.create()
    requests = [answered(knowledge, f"r{number}", item, other) for number in range(99)]
    nothing = answered(knowledge, "nothing")
    for told in (requests[:50], requests[:1], [*requests[30:], nothing]):
        await SqlUsage(knowledge.database).count_uses(KnowledgeUsed(requests=tuple(told)))
    assert ((await of(knowledge, item)).shown, (await of(knowledge, other)).shown) == (99, 99)
    assert (await of(knowledge, other)).mean_position == 2
    assert (await stats(knowledge)).searches == 100


async def test_an_item_that_is_named_twice_in_a_request_counts_once(knowledge: Knowledge) -> None:
    item = await knowledge.create()
    await use(knowledge, "r1", item, item)
    assert (await of(knowledge, item)).shown == 1


async def test_the_last_word_of_each_about_each_query_counts(knowledge: Knowledge) -> None:
    """knowledge-base.md § 收集使用反馈"""
    item = await knowledge.create()
    await vote(knowledge, item, True)
    await vote(knowledge, item, False)
    await vote(knowledge, item, True, actor="ben")
    said = await vote(knowledge, item, True, query="other")
    assert (said.helpful, said.unhelpful) == (2, 1)
    assert said.rate is not None
    assert said.rate.share == pytest.approx(2 / 3)
    assert said.rate.count == 3
    assert (await of(knowledge, item)).unhelpful == 1


async def test_votes_of_one_person_at_once_are_one(knowledge: Knowledge) -> None:
    item = await knowledge.create()
    await asyncio.gather(*(vote(knowledge, item, number % 2 == 0) for number in range(8)))
    said = await of(knowledge, item)
    assert said.helpful + said.unhelpful == 1


async def test_a_query_is_the_same_whatever_its_case_and_spaces(knowledge: Knowledge) -> None:
    assert hash_query("  Which  Header\n") == hash_query("which header") != hash_query("which headers")
    item = await knowledge.create()
    await vote(knowledge, item, True, query="Which header")
    assert (await vote(knowledge, item, False, query="which  HEADER")).helpful == 0


async def test_what_people_say_is_kept_with_the_request_it_is_about(knowledge: Knowledge) -> None:
    item = await knowledge.create()
    await vote(knowledge, item, False, request_id="r1", comment="旧的 '; DROP TABLE x; --")
    (row,) = await fetch(knowledge, select(FEEDBACK.c.request_id, FEEDBACK.c.comment, FEEDBACK.c.query))
    assert tuple(row) == ("r1", "旧的 '; DROP TABLE x; --", "直播")


async def test_only_so_many_votes_of_an_item_are_kept_the_newest(knowledge: Knowledge) -> None:
    item, other = await knowledge.create(), await knowledge.create()
    await vote(knowledge, other, True)
    rows = [
        {
            "project": "default",
            "id": item.id,
            "actor": f"actor-{number}",
            "query_hash": "q",
            "query": "q",
            "helpful": False,
            "at": BEGIN - (number + 1) * DAY,
            "comment": "",
            "request_id": "",
        }
        for number in range(VOTES_OF_AN_ITEM)
    ]
    await knowledge.database.write(lambda connection: connection.execute(FEEDBACK.insert(), rows).rowcount)
    said = await vote(knowledge, item, True)
    assert (said.helpful, said.unhelpful) == (1, VOTES_OF_AN_ITEM - 1)
    [[oldest]] = await fetch(knowledge, select(func.min(FEEDBACK.c.at)).where(FEEDBACK.c.id == item.id))
    assert oldest == BEGIN - (VOTES_OF_AN_ITEM - 1) * DAY
    assert (await of(knowledge, other)).helpful == 1


async def test_items_of_other_projects_are_unknown(knowledge: Knowledge) -> None:
    theirs = await knowledge.create(project="theirs")
    with pytest.raises(UnknownItemError):
        await vote(knowledge, theirs, True, project="default")
    with pytest.raises(UnknownItemError):
        await SqlUsage(knowledge.database).get_usage(GetKnowledgeUsage(id=theirs.id))
    with pytest.raises(UnknownItemError):
        await SqlUsage(knowledge.database).get_usage(GetKnowledgeUsage(id="nobody"))


async def test_an_inherited_item_can_be_voted_on_and_says_only_what_the_project_did_with_it(
    knowledge: Knowledge,
) -> None:
    item = await knowledge.create(project="company")
    for team in ("team-a", "team-b"):
        await knowledge.projects.set_parent(SetKnowledgeParent(project=team, parent="company"))
        await use(knowledge, f"r-{team}", item, project=team)
    said = await vote(knowledge, item, True, project="team-a")
    assert (said.shown, said.helpful) == (1, 1)
    owners = await of(knowledge, item)
    assert (owners.shown, owners.helpful) == (2, 1)
    with pytest.raises(UnknownItemError):
        await SqlUsage(knowledge.database).get_usage(GetKnowledgeUsage(project="team-a", id=item.id))


async def test_a_project_in_numbers(knowledge: Knowledge) -> None:
    rule = await knowledge.create()
    config = await knowledge.create(type="project_config")
    await knowledge.create(status=KnowledgeStatus.PENDING)
    archived = await knowledge.create(title="gone")
    await knowledge.base.archive_item(ArchiveKnowledge(id=archived.id))
    await knowledge.create(project="theirs")
    await use(knowledge, "r1", rule, config)
    await use(knowledge, "r2", config, applied=True)
    await use(knowledge, "r3", project="theirs")
    await vote(knowledge, rule, True)
    now = await stats(knowledge)
    assert (now.total, now.unindexed, now.searches, now.contexts) == (4, 2, 1, 1)
    assert now.by_status == {KnowledgeStatus.ACTIVE: 2, KnowledgeStatus.PENDING: 1, KnowledgeStatus.ARCHIVED: 1}
    assert now.by_type == {
        "business_rule": 1,
        "project_config": 1,
        "module_context": 0,
        TEST_EXPERIENCE: 0,
        "note": 0,
        "faq": 0,
    }
    assert now.feedback is not None
    assert (now.feedback.share, now.feedback.count) == (1.0, 1)
    assert ids(now.most_used) == [config.id, rule.id]
    assert [(one.shown, one.applied) for one in now.most_used] == [(1, 1), (1, 0)]


async def test_an_empty_project_has_empty_reports(knowledge: Knowledge) -> None:
    now = await stats(knowledge, project="empty")
    assert (now.total, now.searches, now.feedback, now.never_used, now.unanswered) == (0, 0, None, (), ())


async def test_items_that_were_never_used_are_reported_oldest_first(knowledge: Knowledge) -> None:
    used = await knowledge.create()
    unused = [await knowledge.create(title=f"title {number}") for number in range(3)]
    await use(knowledge, "r1", used)
    now = await stats(knowledge, limit=2)
    assert ids(now.never_used) == [item.id for item in unused[:2]]
    assert now.never_used_count == 3


async def test_items_neither_changed_nor_helpful_for_long_are_stale(knowledge: Knowledge) -> None:
    stale, helpful, unhelpful = [await knowledge.create(title=f"title {number}") for number in range(3)]
    knowledge.clock.at += 91 * DAY
    await vote(knowledge, helpful, True)
    await vote(knowledge, unhelpful, False)
    await knowledge.create(title="new")
    now = await stats(knowledge)
    assert ids(now.stale) == [stale.id, unhelpful.id]
    assert now.stale_count == 2
    assert (await stats(knowledge, stale_after_days=92)).stale_count == 0


async def test_the_least_helpful_items_are_those_of_whom_that_is_surest(knowledge: Knowledge) -> None:
    surely_bad, perhaps_bad, mixed, good, archived = [await knowledge.create(title=f"t{number}") for number in range(5)]
    for number in range(5):
        await vote(knowledge, surely_bad, False, actor=f"a{number}")
        await vote(knowledge, mixed, number > 1, actor=f"a{number}")
    await vote(knowledge, perhaps_bad, False)
    await vote(knowledge, good, True)
    await vote(knowledge, archived, False)
    await knowledge.base.archive_item(ArchiveKnowledge(id=archived.id))
    now = await stats(knowledge)
    assert ids(now.least_helpful) == [surely_bad.id, perhaps_bad.id, mixed.id]
    assert [one.unhelpful for one in now.least_helpful] == [5, 1, 2]


async def test_queries_that_nothing_was_found_for_are_reported(knowledge: Knowledge) -> None:
    item = await knowledge.create()
    for number in range(3):
        await use(knowledge, f"refund-{number}", query="退款要多久", age=number * DAY)
    await use(knowledge, "long", query="x" * 8_000)
    await use(knowledge, "found", item, query="found")
    await use(knowledge, "theirs", query="theirs", project="theirs")
    now = await stats(knowledge)
    assert [(one.query, one.count) for one in now.unanswered] == [("退款要多久", 3), ("x" * 500, 1)]
    assert now.unanswered[0].last_at == item.created_at


async def test_reports_have_their_limit(knowledge: Knowledge) -> None:
    items = [await knowledge.create(title=f"title {number}") for number in range(3)]
    for item in items:
        await use(knowledge, item.id, item)
        await use(knowledge, f"{item.id}-none", query=item.id)
        await vote(knowledge, item, False)
    now = await stats(knowledge, limit=1)
    assert [len(report) for report in (now.most_used, now.least_helpful, now.unanswered)] == [1, 1, 1]
    none = await stats(knowledge, limit=0)
    assert [len(report) for report in (none.most_used, none.never_used, none.stale, none.unanswered)] == [0, 0, 0, 0]


async def test_old_requests_are_forgotten_and_feedback_stays(knowledge: Knowledge) -> None:
    item = await knowledge.create()
    await use(knowledge, "old", item, age=KEPT + DAY)
    await use(knowledge, "new", item, age=KEPT - DAY)
    await vote(knowledge, item, True)
    assert not await usage(knowledge).remove_expired()
    now = await of(knowledge, item)
    assert (now.shown, now.helpful) == (1, 1)
    left = [await fetch(knowledge, select(table.c.request_id)) for table in (REQUESTS, USES)]
    assert left == [[("new",)], [("new",)]]


async def test_feedback_moves_what_search_is_told(knowledge: Knowledge) -> None:
    item = await knowledge.create()
    await vote(knowledge, item, True)
    snapshot = await SqlCandidates(knowledge.database).load_snapshot(FindKnowledge(ids=(item.id,)))
    assert [given.helpful for given in snapshot.votes[item.id]] == [True]


async def test_an_item_with_many_scenes_names_those_it_is_used_for_most(knowledge: Knowledge) -> None:
    item = await knowledge.create()
    for number in range(25):
        await use(knowledge, f"r{number}", item, scene=f"scene-{number}")
    await use(knowledge, "again", item, scene="scene-24")
    now = await of(knowledge, item)
    assert (now.shown, len(now.scenes), now.scenes["scene-24"]) == (26, 20, 2)


async def test_each_day_has_its_requests_and_votes_also_a_day_without_any(knowledge: Knowledge) -> None:
    first, second = await knowledge.create(), await knowledge.create()
    await use(knowledge, "r1", first, second)
    await use(knowledge, "r2", first, applied=True)
    await use(knowledge, "r3")
    await use(knowledge, "r4", second, age=2 * DAY)
    await use(knowledge, "r5", second, age=3 * DAY)
    await use(knowledge, "other", project="other")
    await vote(knowledge, first, True)
    await vote(knowledge, second, False)
    before, between, today = (await stats(knowledge, days=3)).daily
    assert today.day == knowledge.clock.at.astimezone(UTC).date()
    assert (today.searches, today.contexts, today.uses, today.unanswered) == (2, 1, 3, 1)
    assert today.feedback == estimate_rate(1, 1)
    assert (between.day, between.searches, between.feedback) == (today.day - DAY, 0, None)
    assert (before.day, before.searches, before.uses, before.unanswered) == (today.day - 2 * DAY, 1, 1, 0)
    assert (await stats(knowledge)).daily == ()
