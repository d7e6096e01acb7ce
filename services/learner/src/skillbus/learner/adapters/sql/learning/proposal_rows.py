"""Rows of learned items: their statements, evidence and proposals."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final

from sqlalchemy import Connection, Row, insert, select, update

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.learner.learned import LearnedItem
from skillbus.contracts.learner.proposals import Proposal, ProposalDecision, ProposalKind
from skillbus.learner.adapters.sql.tables import ITEM_COLUMNS, KNOWLEDGE, LEARNED_ITEMS, parse_item
from skillbus.learner.domain.learning.resolution import KnownStatement, Resolution
from skillbus.learner.domain.learning.statement import compute_identity, compute_topic, join_learned

_rows = LEARNED_ITEMS.c
_VALUES_PER_QUERY: Final = 500


def load_known(connection: Connection, project: str, topics: Collection[str]) -> dict[str, list[KnownStatement]]:
    """Return the items about these topics, by topic, newest first. They are locked until the transaction ends."""
    known: dict[str, list[KnownStatement]] = {topic: [] for topic in topics}
    wanted = sorted(known)
    for at in range(0, len(wanted), _VALUES_PER_QUERY):
        some = wanted[at : at + _VALUES_PER_QUERY]
        query = select(*ITEM_COLUMNS, *LEARNED_ITEMS.c).join(LEARNED_ITEMS, _rows.id == KNOWLEDGE.c.id)
        query = query.where(_rows.project == project, _rows.topic.in_(some)).order_by(_rows.id)
        for row in connection.execute(query.with_for_update()):
            known[row.topic].insert(0, _parse_statement(row))
    return known


def load_proposals(connection: Connection, project: str, items: Collection[str]) -> dict[str, Proposal]:
    """Return the proposals of knowledge items, by id. Items without one are left out."""
    query = select(LEARNED_ITEMS).where(_rows.project == project, _rows.id.in_(items))
    return {row.id: parse_proposal(row) for row in connection.execute(query)}


def load_merged(connection: Connection, project: str, item: str) -> list[Proposal]:
    """Return the proposals that were merged into an item."""
    mine = (_rows.project == project, _rows.other == item, _rows.decision == ProposalDecision.MERGED.value)
    return [parse_proposal(row) for row in connection.execute(select(LEARNED_ITEMS).where(*mine))]


def parse_proposal(row: Row[tuple[object, ...]]) -> Proposal:
    """Return the proposal of a row with the columns of `learned_items`."""
    return Proposal(
        id=row.id,
        job=row.job,
        kind=ProposalKind(row.kind),
        reason=row.reason,
        other=row.other,
        learned=LearnedItem.model_validate_json(row.learned),
        first_seen=row.first_seen,
        last_seen=row.last_seen,
        decision=ProposalDecision(row.decision) if row.decision else None,
        snoozed_until=row.snoozed_until,
    )


def insert_proposal(
    connection: Connection, item: KnowledgeItem, learned: LearnedItem, resolution: Resolution, job: str, at: datetime
) -> None:
    """Add the proposal of a knowledge item."""
    values = _dump_learned(learned) | {
        "id": item.id,
        "project": item.project,
        "job": job,
        "first_seen": at,
        "last_seen": at,
        "kind": resolution.kind.value,
        "reason": resolution.reason[:2_000],
        "other": resolution.other,
    }
    connection.execute(insert(LEARNED_ITEMS).values(values))


def update_proposal(connection: Connection, item: str, values: Mapping[str, object]) -> None:
    """Change columns of a proposal."""
    connection.execute(update(LEARNED_ITEMS).where(_rows.id == item).values(dict(values)))


def replace_proposal(connection: Connection, item: str) -> None:
    """Mark the proposal of a superseded item, if it has one. It frees its identity: the value may be proposed again."""
    retired = sha256(item.encode()).hexdigest()
    update_proposal(connection, item, {"decision": ProposalDecision.REPLACED.value, "identity": retired})


def replace_learned(connection: Connection, item: str, learned: LearnedItem, reason: str, at: datetime) -> None:
    """Give a proposal a new statement, and the kind `update`."""
    values = {"kind": ProposalKind.UPDATE.value, "reason": reason[:2_000], "last_seen": at}
    update_proposal(connection, item, _dump_learned(learned) | values)


def reinforce_proposal(connection: Connection, project: str, item: str, learned: LearnedItem, at: datetime) -> bool:
    """Add evidence to the proposal of an item. Return False if the item has none."""
    known = load_proposals(connection, project, (item,)).get(item)
    if known is None:
        return False
    joined = join_learned(known.learned, learned)
    update_proposal(connection, item, {"learned": joined.model_dump_json(), "last_seen": at})
    return True


def load_active(connection: Connection, project: str, items: Sequence[str]) -> dict[str, KnowledgeItem]:
    """Return active items of a project by id."""
    mine = (KNOWLEDGE.c.project == project, KNOWLEDGE.c.id.in_(items), KNOWLEDGE.c.status == "active")
    return {item.id: item for item in map(parse_item, connection.execute(select(*ITEM_COLUMNS).where(*mine)))}


def _parse_statement(row: Row[tuple[object, ...]]) -> KnownStatement:
    proposal = parse_proposal(row)
    return KnownStatement(parse_item(row), proposal.learned, proposal.decision, proposal.other, proposal.job)


def _dump_learned(learned: LearnedItem) -> dict[str, object]:
    return {
        "topic": compute_topic(learned),
        "identity": compute_identity(learned),
        "learned": learned.model_dump_json(),
        "learned_kind": learned.kind.value,
    }
