"""The review queue: lists the proposals of learning, and carries out decisions about pending items."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from skillbus.common.paging import cut_page, measure_json
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef
from skillbus.contracts.learner.proposals import GetProposal, ListProposals, ProposalsListed, WaitingProposal
from skillbus.contracts.learner.versions import ItemReviewed, KnowledgeReviewed, ReviewKnowledge
from skillbus.learner.domain.errors import LearnerError
from skillbus.learner.domain.index.index_waiter import IndexWaiter
from skillbus.learner.domain.item.lifecycle import Attribution
from skillbus.learner.domain.item.listing import diff_items
from skillbus.learner.domain.item.ports import ReviewedItem, ReviewStore
from skillbus.learner.domain.item.review import read_review


@dataclass(frozen=True, slots=True)
class ReviewQueue:
    """Reviews pending items. Every method raises LearnerError."""

    store: ReviewStore
    waiter: IndexWaiter
    on_write: Callable[[], None]
    """Called after each transaction that filled the outbox."""
    now: Callable[[], datetime]

    async def review_items(self, request: ReviewKnowledge) -> KnowledgeReviewed:
        """Carry out one decision about pending items, each on its own."""
        review = read_review(request, Attribution(request.actor, self.now(), request.reason))
        outcomes = await self.store.review_items(request.project, request.ids, review)
        results = tuple(
            ItemReviewed(id=item, ok=False, code=outcome.code, error=str(outcome))
            if isinstance(outcome, LearnerError)
            else ItemReviewed(id=item, ok=True, status=outcome.item.status, version=outcome.item.version)
            for item, outcome in zip(request.ids, outcomes, strict=True)
        )
        done = [outcome for outcome in outcomes if isinstance(outcome, ReviewedItem)]
        written = [_to_ref(item) for outcome in done for item in outcome.written]
        if written:
            self.on_write()
        return KnowledgeReviewed(
            results=results,
            succeeded=len(done),
            failed=len(results) - len(done),
            indexed=not await self.waiter.wait_until_indexed(written),
        )

    async def list_proposals(self, request: ListProposals) -> ProposalsListed:
        """Return a page of the proposals that wait, as many as fit into a message."""
        found, total = await self.store.list_proposals(request, self.now())
        page = cut_page(found[: request.limit], measure_json)
        more = len(page) < len(found)
        return ProposalsListed(proposals=tuple(page), total=total, next=page[-1].item.id if more else None)

    async def get_proposal(self, request: GetProposal) -> WaitingProposal:
        """Return a proposal, with the differences to the item that it would change."""
        found = await self.store.get_proposal(request.project, request.id)
        if found.other is None:
            return found
        changes = await asyncio.to_thread(diff_items, found.other, found.item)
        return found.model_copy(update={"changes": changes})


def _to_ref(item: KnowledgeItem) -> KnowledgeRef:
    return KnowledgeRef(project=item.project, id=item.id, version=item.version)
