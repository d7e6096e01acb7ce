"""Decisions about pending items, and the proposals that wait for one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.proposals import ListProposals, Proposal, ProposalDecision, WaitingProposal
from skillbus.contracts.learner.versions import ReviewAction
from skillbus.learner.adapters.sql.change_writer import write_changes
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.knowledge_store import lock_items, refuse_taken_external_id
from skillbus.learner.adapters.sql.learning.proposal_rows import (
    load_merged,
    load_proposals,
    parse_proposal,
    replace_proposal,
    update_proposal,
)
from skillbus.learner.adapters.sql.tables import ITEM_COLUMNS, KNOWLEDGE, LEARNED_ITEMS, parse_item
from skillbus.learner.domain.errors import (
    ConcurrentChangeError,
    LearnerError,
    NoProposalError,
    UnfitError,
    UnknownItemError,
)
from skillbus.learner.domain.item.lifecycle import ItemChange
from skillbus.learner.domain.item.ports import ReviewedItem
from skillbus.learner.domain.item.review import Review, decide_item
from skillbus.learner.domain.learning.statement import join_learned
from skillbus.sql.errors import ConstraintError

_rows = LEARNED_ITEMS.c


@dataclass(frozen=True, slots=True)
class SqlReviewStore:
    """Reviews in one transaction: the items, their histories and their proposals."""

    database: KnowledgeDatabase

    async def review_items(
        self, project: str, items: Sequence[str], review: Review
    ) -> Sequence[ReviewedItem | LearnerError]:
        def work(connection: Connection) -> Sequence[ReviewedItem | LearnerError]:
            return _ReviewWriter(connection, project, review).review_items(items)

        for _ in range(2):
            try:
                return await self.database.write(work)
            except ConstraintError:  # another writer has just taken the same external id; now it is seen
                continue
        raise ConcurrentChangeError

    async def list_proposals(self, wanted: ListProposals, now: datetime) -> tuple[Sequence[WaitingProposal], int]:
        """Return up to `wanted.limit` + 1 proposals that wait, newest first, and the number of all."""
        waiting = _select_waiting(wanted, now)
        query = select(*ITEM_COLUMNS, *LEARNED_ITEMS.c).join(LEARNED_ITEMS, _rows.id == KNOWLEDGE.c.id).where(*waiting)
        counted = select(func.count()).select_from(KNOWLEDGE).join(LEARNED_ITEMS, _rows.id == KNOWLEDGE.c.id)
        if wanted.after is not None:
            query = query.where(_rows.id < wanted.after)
        query = query.order_by(_rows.id.desc()).limit(wanted.limit + 1)

        def work(connection: Connection) -> tuple[list[WaitingProposal], int]:
            found = [(parse_item(row), parse_proposal(row)) for row in connection.execute(query)]
            others = _load_items(connection, wanted.project, [proposal.other for _, proposal in found])
            total = connection.execute(counted.where(*waiting)).scalar_one()
            return [
                WaitingProposal(item=item, proposal=proposal, other=others.get(proposal.other or ""))
                for item, proposal in found
            ], total

        return await self.database.read(work)

    async def get_proposal(self, project: str, item: str) -> WaitingProposal:
        """Return a proposal with the evidence of those that were merged into its item.

        Raises UnknownItemError, NoProposalError.
        """

        def work(connection: Connection) -> WaitingProposal:
            found = _load_items(connection, project, [item]).get(item)
            if found is None:
                raise UnknownItemError(project, item)
            merged = load_merged(connection, project, item)
            own = load_proposals(connection, project, [item]).get(item)
            if own is None and not merged:
                raise NoProposalError(item)
            proposal = _join_proposals([own, *merged] if own is not None else merged)
            others = _load_items(connection, project, [proposal.other])
            return WaitingProposal(item=found, proposal=proposal, other=others.get(proposal.other or ""))

        return await self.database.read(work)


@dataclass(slots=True)
class _ReviewWriter:
    """One decision about several items, each after the ones before it."""

    connection: Connection
    project: str
    review: Review
    current: dict[str, KnowledgeItem] = field(default_factory=dict)
    proposals: Mapping[str, Proposal] = field(default_factory=dict)

    def review_items(self, items: Sequence[str]) -> list[ReviewedItem | LearnerError]:
        self.proposals = load_proposals(self.connection, self.project, items)
        named = {*items, *filter(None, map(self._choose_other, items))}
        locked = lock_items(self.connection, self.project, sorted(named))
        self.current = {item: found for item, (found, _) in locked.items()}
        outcomes = list[ReviewedItem | LearnerError]()
        for item in items:
            try:
                outcomes.append(self._review_item(item))
            except LearnerError as refused:
                outcomes.append(refused)
        return outcomes

    def _choose_other(self, item: str) -> str | None:
        if not self.review.needs_other:
            return None
        proposal = self.proposals.get(item)
        return self.review.other or (proposal.other if proposal is not None else None)

    def _review_item(self, item: str) -> ReviewedItem:
        other = self._choose_other(item)
        for named in (item, other):
            if named is not None and named not in self.current:
                raise UnknownItemError(self.project, named)
        proposal = self.proposals.get(item)
        if self.review.action is ReviewAction.SNOOZE and proposal is None:
            raise UnfitError(f"item {item!r} was not learned: approve or reject it")
        changes = decide_item(self.review, self.current[item], self.current[other] if other is not None else None)
        for change in changes:
            refuse_taken_external_id(self.connection, change)
        write_changes(self.connection, changes)
        self.current |= {change.item.id: change.item for change in changes}
        if proposal is not None:
            self._close_proposal(proposal, other)
        if other is not None and self.review.action is ReviewAction.SUPERSEDE:
            replace_proposal(self.connection, other)
        return ReviewedItem(self.current[item], tuple(map(_get_item, changes)))

    def _close_proposal(self, proposal: Proposal, other: str | None) -> None:
        values: dict[str, object] = {"snoozed_until": self.review.until}
        if self.review.decision is not None:
            values["decision"] = self.review.decision.value
        if other is not None:
            values["other"] = other
        update_proposal(self.connection, proposal.id, values)


def _get_item(change: ItemChange) -> KnowledgeItem:
    return change.item


def _select_waiting(wanted: ListProposals, now: datetime) -> list[ColumnElement[bool]]:
    snoozed = and_(_rows.snoozed_until.is_not(None), _rows.snoozed_until > now)
    awake = or_(_rows.snoozed_until.is_(None), _rows.snoozed_until <= now)
    conditions = [
        _rows.project == wanted.project,
        KNOWLEDGE.c.status == KnowledgeStatus.PENDING.value,
        snoozed if wanted.snoozed else awake,
    ]
    if wanted.job is not None:
        conditions.append(_rows.job == wanted.job)
    if wanted.kind is not None:
        conditions.append(_rows.kind == wanted.kind.value)
    if wanted.learned is not None:
        conditions.append(_rows.learned_kind == wanted.learned.value)
    return conditions


def _load_items(connection: Connection, project: str, items: Sequence[str | None]) -> dict[str, KnowledgeItem]:
    mine = (KNOWLEDGE.c.project == project, KNOWLEDGE.c.id.in_([item for item in items if item is not None]))
    return {item.id: item for item in map(parse_item, connection.execute(select(*ITEM_COLUMNS).where(*mine)))}


def _join_proposals(proposals: Sequence[Proposal]) -> Proposal:
    first, *merged = proposals
    learned = first.learned
    for other in merged:
        learned = join_learned(learned, other.learned)
    decision = None if first.decision is ProposalDecision.MERGED else first.decision
    return first.model_copy(update={"learned": learned, "decision": decision})
