"""Pages of the review, as a browser gets them."""

import re
from datetime import UTC, datetime

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.learner.items import GET_KNOWLEDGE, LIST_KNOWLEDGE, KnowledgeListed, KnowledgeSummary
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.learned import ConfidenceInterval, EvidenceQuote, LearnedItem, LearnedStatement
from skillbus.contracts.learner.proposals import GET_PROPOSAL, Proposal, ProposalKind, WaitingProposal
from skillbus.contracts.learner.versions import KnowledgeFieldDiff, TextSpan
from skillbus.gateway.service.pages.sections.review import group_items

from .fakes import KEY, World
from .page_visits import EVIL, get_page

ID = "01890000-0000-7000-8000-000000000000"
OTHER = "01890000-0000-7000-8000-000000000001"
NEXT = "01890000-0000-7000-8000-000000000002"
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
    assert "Learned from logs" in page
    assert 'data-api="POST /api/knowledge/review"' in page
    assert 'value="approve"' in page
    assert 'value="reject"' in page
    assert "after=cursor" in page


async def test_the_queue_is_grouped_by_the_job_and_by_what_its_items_are_about(world: World) -> None:
    made = [summarize(f"0189{number:04}-0000-7000-8000-000000000000") for number in range(5)]
    refs = [("job 1", "/a"), ("job 2", "/a"), ("job 1", "/b"), ("job 1", "/a"), (EVIL, "/a")]
    items = tuple(
        item.model_copy(update={"source_ref": ref, "scope": scope})
        for item, (ref, scope) in zip(made, refs, strict=True)
    )
    first, second, third = group_items(items)
    assert [(group.source, group.source_ref, group.size) for group in (first, second, third)] == [
        ("log_learning", "job 1", 3),
        ("log_learning", "job 2", 1),
        ("log_learning", EVIL, 1),
    ]
    assert [(cluster.scope, cluster.items) for cluster in first.clusters] == [
        ("/a", (items[0], items[3])),
        ("/b", (items[2],)),
    ]
    world.caller.on(LIST_KNOWLEDGE, lambda _: KnowledgeListed(items=items, total=5))
    page = (await get_page(world, "/review")).text
    assert page.count('data-testid="group"') == 3
    assert page.count('data-testid="cluster"') == 4
    assert 'Learned from logs · <a href="/learning/job%201" title="job 1">' in page
    assert "<script>alert" not in page


async def test_the_queue_is_paged_forward_and_back(world: World) -> None:
    listed = KnowledgeListed(items=(summarize(ID),), total=60, next="on", previous="back")
    world.caller.on(LIST_KNOWLEDGE, lambda _: listed)
    page = (await get_page(world, "/review?after=here&source=log_learning")).text
    assert 'href="/review?source=log_learning&amp;before=back"' in page
    assert 'href="/review?source=log_learning&amp;after=on"' in page
    await get_page(world, "/review?before=back")
    assert world.caller.asked[-1][1].model_dump()["before"] == "back"


async def test_evidence_is_quoted_with_the_numbers_of_its_lines(world: World) -> None:
    quote = EvidenceQuote(file="app.log", line=41, quote=f"first\n{EVIL}")
    learned = LEARNED.model_copy(update={"evidence": (quote,)})
    proposal = PROPOSAL.model_copy(update={"learned": learned})
    world.caller.on(GET_PROPOSAL, lambda _: WAITING.model_copy(update={"proposal": proposal}))
    page = (await get_page(world, f"/review/{ID}")).text
    assert 'app.log:41</figcaption><ol class="lines" start="41"><li><code>first</code></li><li><code>&lt;script' in page


async def test_a_candidate_stands_beside_what_it_would_change_with_its_evidence(world: World) -> None:
    page = (await get_page(world, f"/review/{ID}")).text
    for part in ("candidate", "other", "diff", "evidence", "approve", "merge", "supersede", "reject", "snooze"):
        assert f'data-testid="{part}"' in page, part
    assert "70–90 %" in page
    assert "instructions to a model" in page
    assert f'href="/learning/{NEXT}"' in page  # the job that proposed it
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
