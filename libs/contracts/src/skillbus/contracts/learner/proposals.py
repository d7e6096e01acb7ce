"""Proposals of learning: what a learned item would change in the knowledge base, and the queue of those that wait."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner import SERVICE
from skillbus.contracts.learner.knowledge import EXAMPLE_ID, Instant, KnowledgeId, KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.learned import LearnedItem, LearnedKind
from skillbus.contracts.learner.versions import KnowledgeFieldDiff
from skillbus.contracts.message import Message, ProjectMessage


class ProposalKind(StrEnum):
    """Relation of a learned item to what is known."""

    ADD = "add"
    """Nothing is known about it."""
    REINFORCE = "reinforce"
    """Known already. Its evidence is added to the known item, and nothing waits for review."""
    UPDATE = "update"
    """Says something else than a pending item that learning made, which has the new statement now."""
    SUPERSEDE = "supersede"
    """Says something else than an active item that learning made."""
    CONFLICT = "conflict"
    """Says something else than an item of a person or of a better source."""
    SUPPRESS = "suppress"
    """Rejected or archived before. It is not proposed again."""


class ProposalDecision(StrEnum):
    """Decision of a person about a proposal."""

    APPROVED = "approved"
    REJECTED = "rejected"
    MERGED = "merged"
    """Its evidence belongs to another item now."""
    SUPERSEDED = "superseded"
    """Approved in place of another item, which is archived."""
    REPLACED = "replaced"
    """Approved, and archived later because another item superseded it. Its value may be proposed again."""


class ReportedItem(LearnedItem):
    """Item in the report of a job, and what became of it."""

    proposal: ProposalKind | None = None
    proposal_reason: str = ""
    item_id: KnowledgeId | None = None
    """Knowledge item that waits for review, or that is reinforced. Absent if the item was suppressed."""
    other: KnowledgeId | None = None
    """Known item that it would change, or that suppresses it."""
    status: KnowledgeStatus | None = None
    """Status of the knowledge item now. Absent without one."""


class Proposal(Message):
    """Learned item that became a knowledge item, with its evidence."""

    id: KnowledgeId
    """Id of the knowledge item."""
    job: KnowledgeId
    """Job that proposed it first."""
    kind: ProposalKind
    reason: str
    """Reason for this relation, with the differences."""
    other: KnowledgeId | None = None
    """Known item that it would change."""
    learned: LearnedItem
    """The item as it was learned, with the evidence of all jobs."""
    first_seen: Instant
    last_seen: Instant
    decision: ProposalDecision | None = None
    """Absent while it waits for review."""
    snoozed_until: Instant | None = None


class WaitingProposal(Message):
    """Pending item, its proposal, and the item that it would change."""

    item: KnowledgeItem
    proposal: Proposal
    other: KnowledgeItem | None = None
    changes: tuple[KnowledgeFieldDiff, ...] = ()
    """Differences from `other` to `item`. Only in the reply to `get_proposal`."""


class ListProposals(ProjectMessage):
    """Query for one page of the proposals that wait for review, newest first."""

    job: KnowledgeId | None = None
    kind: ProposalKind | None = None
    learned: LearnedKind | None = None
    snoozed: bool = False
    """True lists the snoozed ones instead."""
    limit: int = Field(default=20, ge=1, le=100)
    after: KnowledgeId | None = None
    """`next` of the previous page."""


class ProposalsListed(Message):
    """One page of proposals."""

    proposals: tuple[WaitingProposal, ...]
    total: int
    next: KnowledgeId | None = None
    """Value of `after` for the next page. Absent on the last page."""


class GetProposal(ProjectMessage):
    """Knowledge item whose proposal is wanted."""

    id: Annotated[KnowledgeId, Field(description="Id of the knowledge item.")]


LIST_PROPOSALS: Final = Endpoint(
    service=SERVICE,
    name="list_proposals",
    request=ListProposals,
    reply=ProposalsListed,
    summary="List the learned items that wait for review, each with its evidence and the item that it would change.",
    is_read=True,
    example={"limit": 20},
)
GET_PROPOSAL: Final = Endpoint(
    service=SERVICE,
    name="get_proposal",
    request=GetProposal,
    reply=WaitingProposal,
    summary="Return the evidence and the proposal of a learned item, also after its review.",
    is_read=True,
    raises=(ErrorCode.NOT_FOUND,),
    example={"id": EXAMPLE_ID},
)
