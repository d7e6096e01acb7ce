"""Pages of the review, as a browser gets them."""

import re
from datetime import UTC, datetime

import httpx
import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.learner.items import GET_KNOWLEDGE, LIST_KNOWLEDGE, KnowledgeListed, KnowledgeSummary
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.learned import ConfidenceInterval, EvidenceQuote, LearnedItem, LearnedStatement
from skillbus.contracts.learner.proposals import GET_PROPOSAL, Proposal, ProposalKind, WaitingProposal
from skillbus.contracts.learner.versions import KnowledgeFieldDiff, TextSpan

from .fakes import KEY, World

ID = "01890000-0000-7000-8000-000000000000"
OTHER = "01890000-0000-7000-8000-000000000001"
NEXT = "01890000-0000-7000-8000-000000000002"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ITEM = KnowledgeItem(
    id=ID,
    title=EVIL,
    content=EVIL,
    scope="/<b>",
    source="log_learning",
    source_ref=EVIL,
    status=KnowledgeStatus.PENDING,
    version=1,
    digest="0" * 64,
    created_at=NOW,
    created_by=EVIL,
    updated_at=NOW,
)
LEARNED = LearnedItem(
    kind="rule",
    type="business_rule",
    title=EVIL,
    content=EVIL,
    statement=LearnedStatement(subject=EVIL, predicate=EVIL),
    evidence=(EvidenceQuote(file=EVIL, line=7, quote=EVIL),),
    confidence=ConfidenceInterval(low=0.7, high=0.9),
    seen=3,
    addresses_assistant=True,
    extractor=EVIL,
)
PROPOSAL = Proposal(
    id=ID,
    job=NEXT,
    kind=ProposalKind.CONFLICT,
    reason=EVIL,
    other=OTHER,
    learned=LEARNED,
    first_seen=NOW,
    last_seen=NOW,
)
CHANGES = (
    KnowledgeFieldDiff(field="content", before="a", after=EVIL, spans=(TextSpan(kind="added", text=EVIL),)),
    KnowledgeFieldDiff(field="tags", before=[EVIL], after=[]),
)
WAITING = WaitingProposal(
    item=ITEM, proposal=PROPOSAL, other=ITEM.model_copy(update={"id": OTHER, "title": EVIL}), changes=CHANGES
)


def summarize(item_id: str) -> KnowledgeSummary:
    fields = set(KnowledgeSummary.model_fields) - {"excerpt", "id"}
    return KnowledgeSummary(id=item_id, **ITEM.model_dump(include=fields), excerpt=EVIL)


@pytest.fixture
def world() -> World:
    made = World(key=KEY)
    listed = KnowledgeListed(items=(summarize(ID), summarize(NEXT)), total=60, next="cursor")
    made.caller.on(LIST_KNOWLEDGE, lambda _: listed)
    made.caller.on(GET_PROPOSAL, lambda _: WAITING)
    made.caller.on(GET_KNOWLEDGE, lambda _: ITEM)
    return made


async def get_page(world: World, path: str, key: str | None = None) -> httpx.Response:
    async with world.client(key) as client:
        return await client.get(path, headers={"Accept": "text/html"})


@pytest.mark.parametrize("path", ["/review", f"/review/{ID}"])
async def test_no_text_of_a_candidate_becomes_markup(world: World, path: str) -> None:
    answer = await get_page(world, path)
    assert answer.status_code == 200, answer.text
    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text
    assert not re.search(r"\son[a-z]+=[\"']", answer.text)


@pytest.mark.spec("knowledge-base.md § 待审核页面")
async def test_the_queue_shows_all_pending_items_with_their_source_and_decides_about_several_at_once(
    world: World,
) -> None:
    page = (await get_page(world, "/review?source=log_learning")).text
    asked = world.caller.asked[-1][1].model_dump(mode="json")
    assert (asked["statuses"], asked["source"]) == (["pending"], "log_learning")
    assert page.count('data-testid="item"') == 2
    assert "log_learning" in page
    assert 'data-api="POST /api/knowledge/review"' in page
    assert 'value="approve"' in page
    assert 'value="reject"' in page
    assert "after=cursor" in page


async def test_a_candidate_stands_beside_what_it_would_change_with_its_evidence(world: World) -> None:
    page = (await get_page(world, f"/review/{ID}")).text
    for part in ("candidate", "other", "diff", "evidence", "approve", "merge", "supersede", "reject", "snooze"):
        assert f'data-testid="{part}"' in page, part
    assert "70–90 %" in page
    assert "instructions to a model" in page
    assert f'data-next="/review/{NEXT}"' in page


async def test_an_item_of_a_person_has_no_proposal_and_can_be_approved_or_rejected(world: World) -> None:
    world.caller.on(GET_PROPOSAL, lambda _: RequestError(ErrorCode.NOT_FOUND, "No proposal."))
    page = (await get_page(world, f"/review/{ID}")).text
    assert 'data-testid="approve"' in page
    assert 'data-testid="merge"' not in page
    assert 'data-testid="snooze"' not in page


async def test_a_reader_sees_the_queue_and_decides_nothing(world: World) -> None:
    reader = world.add_key(Role.READER, "default")
    for path in ("/review", f"/review/{ID}"):
        page = await get_page(world, path, reader)
        assert page.status_code == 200
        assert "approve" not in page.text
