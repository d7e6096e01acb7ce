"""A record of knowledge in memory that answers like the learner, and the index points of its items."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import JsonValue

from skillbus.contracts.learner.index import FindKnowledge, FoundItem, KnowledgeMatched
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.scope import get_scope_key, list_ancestor_keys, match_scope
from skillbus.vectors import DENSE, LEXICAL, models

LONG_AGO = -62_135_596_800.0
FOR_EVER = 253_402_300_800.0
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def id_of(number: int) -> str:
    """The id of an item of this number."""
    return f"01890000-0000-7000-8000-{number:012}"


def item(number: int, title: str = "", **more: object) -> KnowledgeItem:
    """An active item of everything, with an id of this number."""
    fields: dict[str, object] = {
        "id": id_of(number),
        "type": "business_rule",
        "title": title or f"title {number}",
        "content": title or f"content {number}",
        "version": 1,
        "digest": "",
        "created_at": NOW,
        "updated_at": NOW,
        **more,
    }
    made = KnowledgeItem.model_validate(fields)
    return made.model_copy(update={"digest": made.digest or f"{made.id} {made.version}"})


@dataclass
class Record:
    """Items by id. It is the authority: what it does not give may not be shown."""

    items: dict[str, KnowledgeItem] = field(default_factory=dict)
    indexed: dict[str, int] = field(default_factory=dict)
    """The version that the index is said to have; of those that are absent, all."""
    votes: dict[str, tuple[float, float]] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    page: int = 256
    """How many items one answer holds."""
    asked: list[FindKnowledge] = field(default_factory=list)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def put(self, *items: KnowledgeItem, indexed: bool = True) -> None:
        for one in items:
            self.items[one.id] = one
            self.indexed[one.id] = one.version if indexed else 0

    def find(self, asked: FindKnowledge) -> KnowledgeMatched:
        self.asked.append(asked)
        projects = self.seen_by(asked.project) if asked.inherit else (asked.project,)
        named = [self.items[one] for one in asked.ids if one in self.items]
        shown = [one for one in named if self._fits(one, asked, projects)]
        active = [one for one in self.items.values() if one.status is KnowledgeStatus.ACTIVE]
        return KnowledgeMatched(
            items=tuple(self._found(one, asked) for one in shown[: self.page]),
            projects=projects,
            index_behind=sum(one.project in projects and self.indexed[one.id] < one.version for one in active),
            left=tuple(one.id for one in shown[self.page :]),
        )

    def seen_by(self, project: str) -> tuple[str, ...]:
        above = self.parents.get(project)
        return (project, *self.seen_by(above)) if above else (project,)

    def _fits(self, one: KnowledgeItem, asked: FindKnowledge, projects: Iterable[str]) -> bool:
        at = asked.at or self.now()
        return (
            one.status is KnowledgeStatus.ACTIVE
            and one.project in projects
            and (not asked.types or one.type in asked.types)
            and (not asked.sources or one.source in asked.sources)
            and (not asked.tags or bool(set(asked.tags) & set(one.tags)))
            and set(asked.all_tags) <= set(one.tags)
            and (one.valid_from is None or one.valid_from <= at)
            and (one.valid_to is None or one.valid_to > at)
            and (asked.scope is None or match_scope(one.scope, asked.scope) is not None)
        )

    def _found(self, one: KnowledgeItem, asked: FindKnowledge) -> FoundItem:
        helpful, unhelpful = self.votes.get(one.id, (0.0, 0.0))
        return FoundItem(
            item=one.model_copy(update={"content": one.content[: asked.content_characters]}),
            content_cut=len(one.content) > asked.content_characters,
            helpful=helpful,
            unhelpful=unhelpful,
            indexed_version=self.indexed[one.id],
        )


def point_of(one: KnowledgeItem, words: models.SparseValues, dense: list[float] | None = None) -> models.PointStruct:
    """The point that the indexer writes of an item."""
    named: dict[str, models.Vector] = {LEXICAL: words} if dense is None else {LEXICAL: words, DENSE: dense}
    payload: dict[str, JsonValue] = {
        "project": one.project,
        "item_id": one.id,
        "version": one.version,
        "type": one.type,
        "tags": list(one.tags),
        "source": one.source,
        "scope_fixed": get_scope_key(one.scope),
        "scope_above": list(list_ancestor_keys(one.scope)),
        "valid_from": one.valid_from.timestamp() if one.valid_from else LONG_AGO,
        "valid_to": one.valid_to.timestamp() if one.valid_to else FOR_EVER,
        "content_hash": one.digest,
    }
    return models.PointStruct(id=one.id, vector=named, payload=payload)
