"""Proposals of learning and their review, on SQLite and on PostgreSQL."""

from datetime import timedelta

import pytest

from skillbus.contracts.learner.items import GetKnowledge, KnowledgeChanges
from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.learner.learned import LearnedItem
from skillbus.contracts.learner.learning_jobs import LearningInputKind, LearningJob, StartLearning
from skillbus.contracts.learner.proposals import (
    GetProposal,
    ListProposals,
    ProposalDecision,
    ProposalKind,
    ReportedItem,
)
from skillbus.contracts.learner.versions import ReviewKnowledge
from skillbus.learner.adapters.sql.learning.item_proposer import SqlItemProposer
from skillbus.learner.adapters.sql.learning.job_record import SqlJobRecord
from skillbus.learner.domain.errors import NoProposalError
from skillbus.learner.domain.learning.ports import ExtractionResult

from .knowledge import BEGIN, Knowledge
from .test_learning_jobs import make_file
from .test_learning_record import make_item, make_job


async def _learn(knowledge: Knowledge, *items: LearnedItem, near: tuple[str, ...] = ()) -> list[ReportedItem]:
    """Run a job that finds these items, and return its report."""
    at = knowledge.clock()
    record = SqlJobRecord(knowledge.database)
    request = StartLearning(what=LearningInputKind.LOGS, files=(make_file("a.log", at.isoformat()),))
    job: LearningJob = make_job(request)
    await record.add_job(job, request.files)
    claimed = await record.claim_job("runner", at, at + timedelta(seconds=30))
    assert claimed is not None
    proposer = SqlItemProposer(knowledge.database, lambda: None)
    done = await proposer.finish_job(claimed, ExtractionResult(items=items), [near] * len(items), at)
    assert done is not None
    _, report = await record.load_report("default", done.id)
    return list(report.items)


def _fact(key: str, value: str, line: int = 1) -> LearnedItem:
    text = f"The setting {key} has the value {value}."
    quote = {"file": "a.log", "line": line, "quote": f"{key}={value}"}
    return make_item(
        f"{key}={value}",
        content=text,
        statement={"subject": key, "predicate": "is", "value": value},
        evidence=[quote],
    )


async def _status(knowledge: Knowledge, item: str | None) -> KnowledgeStatus:
    assert item is not None
    return (await knowledge.base.get_item(GetKnowledge(id=item))).status


async def _review(knowledge: Knowledge, action: str, *items: str | None, **fields: object) -> list[str]:
    """Decide, and return `ok` or the error of each item."""
    request = {"ids": items, "action": action, "actor": "ann", **fields}
    reviewed = await knowledge.reviews.review_items(ReviewKnowledge.model_validate(request))
    return ["ok" if result.ok else str(result.error) for result in reviewed.results]


async def test_a_new_item_waits_with_its_evidence_and_proposal(knowledge: Knowledge) -> None:
    [reported] = await _learn(knowledge, _fact("pool", "10"))
    page = await knowledge.reviews.list_proposals(ListProposals())
    assert page.total == 1
    (waiting,) = page.proposals
    assert (waiting.item.id, waiting.item.status) == (reported.item_id, KnowledgeStatus.PENDING)
    assert (waiting.proposal.kind, waiting.other) == (ProposalKind.ADD, None)
    assert waiting.proposal.learned.evidence[0].quote == "pool=10"


async def test_the_same_statement_adds_evidence_once_and_nothing_to_review(knowledge: Knowledge) -> None:
    [first] = await _learn(knowledge, _fact("pool", "10"))
    for line in (1, 7, 7):
        [again] = await _learn(knowledge, _fact("pool", "10", line))
        assert (again.proposal, again.item_id) == (ProposalKind.REINFORCE, first.item_id)
    assert first.item_id is not None
    found = await knowledge.reviews.get_proposal(GetProposal(id=first.item_id))
    assert [quote.line for quote in found.proposal.learned.evidence] == [1, 7]
    assert found.proposal.learned.seen == 2
    assert (await knowledge.reviews.list_proposals(ListProposals())).total == 1


async def test_another_value_updates_what_waits_and_supersedes_what_is_active(knowledge: Knowledge) -> None:
    [first] = await _learn(knowledge, _fact("pool", "10"))
    [second] = await _learn(knowledge, _fact("pool", "20"))
    assert (second.proposal, second.item_id) == (ProposalKind.UPDATE, first.item_id)
    assert (await knowledge.base.get_item(GetKnowledge(id=first.item_id or ""))).title == "pool=20"
    assert await _review(knowledge, "approve", first.item_id) == ["ok"]
    [third] = await _learn(knowledge, _fact("pool", "30"))
    assert (third.proposal, third.other) == (ProposalKind.SUPERSEDE, first.item_id)
    (waiting,) = (await knowledge.reviews.list_proposals(ListProposals())).proposals
    assert waiting.other is not None
    assert (waiting.item.title, waiting.other.title) == ("pool=30", "pool=20")
    assert await _review(knowledge, "supersede", third.item_id) == ["ok"]
    assert await _status(knowledge, third.item_id) is KnowledgeStatus.ACTIVE
    assert await _status(knowledge, first.item_id) is KnowledgeStatus.ARCHIVED


async def test_a_superseded_value_that_comes_back_is_proposed_again(knowledge: Knowledge) -> None:
    [first] = await _learn(knowledge, _fact("pool", "30"))
    await _review(knowledge, "approve", first.item_id)
    [second] = await _learn(knowledge, _fact("pool", "60"))
    await _review(knowledge, "supersede", second.item_id)
    [again] = await _learn(knowledge, _fact("pool", "30", 9))
    assert (again.proposal, again.other) == (ProposalKind.SUPERSEDE, second.item_id)
    assert await _review(knowledge, "supersede", again.item_id) == ["ok"]
    assert await _status(knowledge, second.item_id) is KnowledgeStatus.ARCHIVED
    [same] = await _learn(knowledge, _fact("pool", "30", 10))
    assert (same.proposal, same.item_id) == (ProposalKind.REINFORCE, again.item_id)


async def test_an_external_id_of_another_item_refuses_its_decision_only(knowledge: Knowledge) -> None:
    await knowledge.create(external_id="taken")
    [item] = await _learn(knowledge, _fact("pool", "10"))
    [refused] = await _review(knowledge, "approve", item.item_id, changes={"external_id": "taken"})
    assert "has the external id 'taken'" in refused
    assert await _status(knowledge, item.item_id) is KnowledgeStatus.PENDING


async def test_an_item_that_was_not_learned_has_no_proposal(knowledge: Knowledge) -> None:
    mine = await knowledge.create()
    with pytest.raises(NoProposalError):
        await knowledge.reviews.get_proposal(GetProposal(id=mine.id))


async def test_an_item_of_a_person_is_reinforced_or_in_conflict_and_never_changed(knowledge: Knowledge) -> None:
    mine = await knowledge.create("Pool", "The setting pool has the value 10.")
    [same] = await _learn(knowledge, _fact("pool", "10"), near=(mine.id,))
    assert (same.proposal, same.item_id) == (ProposalKind.REINFORCE, mine.id)
    [other] = await _learn(knowledge, _fact("pool", "99"), near=(mine.id,))
    assert (other.proposal, other.other) == (ProposalKind.CONFLICT, mine.id)
    assert (await knowledge.base.get_item(GetKnowledge(id=mine.id))).version == 1


async def test_a_rejected_item_is_not_proposed_again(knowledge: Knowledge) -> None:
    [first] = await _learn(knowledge, _fact("pool", "10"))
    assert await _review(knowledge, "reject", first.item_id, reason="a test machine") == ["ok"]
    [again] = await _learn(knowledge, _fact("pool", "10", 5))
    assert (again.proposal, again.item_id) == (ProposalKind.SUPPRESS, None)
    assert (await knowledge.reviews.list_proposals(ListProposals())).total == 0


async def test_a_merged_item_gives_its_evidence_to_the_other_one(knowledge: Knowledge) -> None:
    mine = await knowledge.create("Pool", "The pool is small.")
    [item] = await _learn(knowledge, _fact("pool", "10"))
    changes = KnowledgeChanges(content="The pool has ten places.")
    assert await _review(knowledge, "merge", item.item_id, other=mine.id, changes=changes) == ["ok"]
    assert (await knowledge.base.get_item(GetKnowledge(id=mine.id))).content == "The pool has ten places."
    found = await knowledge.reviews.get_proposal(GetProposal(id=mine.id))
    assert found.proposal.learned.evidence[0].quote == "pool=10"
    for line, near in ((8, ()), (9, (mine.id,))):
        [again] = await _learn(knowledge, _fact("pool", "10", line), near=near)
        assert (again.proposal, again.item_id) == (ProposalKind.REINFORCE, mine.id)
    found = await knowledge.reviews.get_proposal(GetProposal(id=mine.id))
    assert [quote.line for quote in found.proposal.learned.evidence] == [1, 8, 9]
    assert await _status(knowledge, item.item_id) is KnowledgeStatus.ARCHIVED


async def test_a_snoozed_proposal_comes_back_at_its_time(knowledge: Knowledge) -> None:
    [item] = await _learn(knowledge, _fact("pool", "10"))
    assert await _review(knowledge, "snooze", item.item_id, until=BEGIN + timedelta(days=1)) == ["ok"]
    assert (await knowledge.reviews.list_proposals(ListProposals())).total == 0
    assert (await knowledge.reviews.list_proposals(ListProposals(snoozed=True))).total == 1
    knowledge.clock.at = BEGIN + timedelta(days=2)
    assert (await knowledge.reviews.list_proposals(ListProposals())).total == 1


async def test_a_batch_has_a_result_for_each_item_and_decides_on_those_that_can_be(knowledge: Knowledge) -> None:
    first, second = await _learn(knowledge, _fact("pool", "10"), _fact("port", "80"))
    assert await _review(knowledge, "approve", first.item_id) == ["ok"]
    mine = await knowledge.create("Suggested", "By a person.", status=KnowledgeStatus.PENDING)
    results = await _review(knowledge, "approve", first.item_id, second.item_id, mine.id, "nobody", second.item_id)
    assert [result == "ok" for result in results] == [False, True, True, False, False]
    assert "nobody" in results[3]


async def test_proposals_are_listed_page_by_page_and_by_job_and_kind(knowledge: Knowledge) -> None:
    await _learn(knowledge, *(_fact(f"key{number}", "1") for number in range(5)))
    [last] = await _learn(knowledge, _fact("other", "1"))
    first = await knowledge.reviews.list_proposals(ListProposals(limit=4))
    rest = await knowledge.reviews.list_proposals(ListProposals(limit=4, after=first.next))
    assert (len(first.proposals), len(rest.proposals), rest.next, first.total) == (4, 2, None, 6)
    of_job = await knowledge.reviews.list_proposals(ListProposals(job=first.proposals[0].proposal.job))
    assert [waiting.item.id for waiting in of_job.proposals] == [last.item_id]
    assert (await knowledge.reviews.list_proposals(ListProposals(kind=ProposalKind.CONFLICT))).total == 0
    assert (await knowledge.reviews.list_proposals(ListProposals(project="other"))).total == 0


async def test_a_decision_stays_with_the_proposal(knowledge: Knowledge) -> None:
    [item] = await _learn(knowledge, _fact("pool", "10"))
    await _review(knowledge, "approve", item.item_id)
    found = await knowledge.reviews.get_proposal(GetProposal(id=item.item_id or ""))
    assert found.proposal.decision is ProposalDecision.APPROVED


@pytest.mark.parametrize("action", ["merge", "supersede"])
async def test_a_decision_about_an_unknown_item_changes_nothing(knowledge: Knowledge, action: str) -> None:
    [item] = await _learn(knowledge, _fact("pool", "10"))
    [result] = await _review(knowledge, action, item.item_id, other="0" * 36)
    assert result != "ok"
    assert await _status(knowledge, item.item_id) is KnowledgeStatus.PENDING
