"""The knowledge base: what is asked of it, decided by the rules of the lifecycle and kept by the store."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from skillbus.contracts.learner.items import (
    ArchiveKnowledge,
    CreateKnowledge,
    GetKnowledge,
    KnowledgeWritten,
    RestoreKnowledge,
    UpdateKnowledge,
)
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef
from skillbus.contracts.learner.versions import ItemReviewed, ReviewKnowledge
from skillbus.learner.domain.errors import LearnerError, UnfitError
from skillbus.learner.domain.index.index_waiter import IndexWaiter
from skillbus.learner.domain.item import lifecycle
from skillbus.learner.domain.item.lifecycle import By, Change, expect
from skillbus.learner.domain.item.ports import Decide, KnowledgeReader, KnowledgeStore, Once, Outcome
from skillbus.learner.domain.item.values import new_id

_KEYS_ARE_KEPT: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """Writes items; what it wrote is found from then on. Everything raises LearnerError."""

    store: KnowledgeStore
    reader: KnowledgeReader
    waiting: IndexWaiter
    wrote: Callable[[], None]
    """Called after each change that was written: there is something in the outbox."""
    now: Callable[[], datetime]

    async def create(self, request: CreateKnowledge) -> KnowledgeWritten:
        by = self._by(request.actor, request.reason)
        change = lifecycle.create(request, new_id(by.at), request.project, request.status, by)
        return await self._answer(await self.store.create(change, _once(request, by.at)))

    async def update(self, request: UpdateKnowledge) -> KnowledgeWritten:
        changes = lifecycle.changes_of(request)
        by = self._by(request.actor, request.reason)

        def decide(item: KnowledgeItem) -> Change | None:
            expect(item, request.expected_version)
            return lifecycle.update(item, changes, by)

        return await self._change(request.project, request.id, decide)

    async def archive(self, request: ArchiveKnowledge) -> KnowledgeWritten:
        by = self._by(request.actor, request.reason)

        def decide(item: KnowledgeItem) -> Change | None:
            expect(item, request.expected_version)
            return lifecycle.archive(item, by)

        return await self._change(request.project, request.id, decide)

    async def restore(self, request: RestoreKnowledge) -> KnowledgeWritten:
        """Out of the archive, or as it was at a version."""
        by = self._by(request.actor, request.reason)
        then = None
        if request.version is not None:  # versions never change: it may be read before
            then = await self.reader.at_version(request.project, request.id, request.version)

        def decide(item: KnowledgeItem) -> Change | None:
            expect(item, request.expected_version)
            return lifecycle.restore(item, by) if then is None else lifecycle.revert(item, then, by)

        return await self._change(request.project, request.id, decide)

    async def review(self, request: ReviewKnowledge) -> tuple[ItemReviewed, ...]:
        """Each item by itself; the answer does not wait for the index."""
        by = self._by(request.actor, request.reason)
        outcomes = await self.store.change_each(
            request.project, request.ids, lambda item: lifecycle.review(item, request.action, by)
        )
        if any(isinstance(outcome, Outcome) for outcome in outcomes):
            self.wrote()
        return tuple(_reviewed(item, outcome) for item, outcome in zip(request.ids, outcomes, strict=True))

    async def get(self, request: GetKnowledge) -> KnowledgeItem:
        """As it is, at a version, or as it was at a time."""
        if request.version is not None and request.as_of is not None:
            raise UnfitError("`version` and `as_of` are given: name one of both")
        if request.version is not None:
            return await self.reader.at_version(request.project, request.id, request.version)
        if request.as_of is not None:
            return await self.reader.as_of(request.project, request.id, request.as_of)
        return await self.reader.current(request.project, request.id)

    async def _change(self, project: str, item: str, decide: Decide) -> KnowledgeWritten:
        return await self._answer(await self.store.change(project, item, decide))

    async def _answer(self, outcome: Outcome) -> KnowledgeWritten:
        item = outcome.item
        if not outcome.repeated:
            self.wrote()
        ref = KnowledgeRef(project=item.project, id=item.id, version=item.version)
        indexed = outcome.indexed or await self.waiting.indexed([ref])
        return KnowledgeWritten(item=item, indexed=indexed, repeated=outcome.repeated)

    def _by(self, actor: str, reason: str) -> By:
        return By(actor, self.now(), reason)


def _once(request: CreateKnowledge, at: datetime) -> Once | None:
    if request.idempotency_key is None:
        return None
    said = request.model_dump_json(exclude={"idempotency_key", "actor", "reason"})
    return Once(request.idempotency_key, sha256(said.encode()).hexdigest(), at - _KEYS_ARE_KEPT)


def _reviewed(item: str, outcome: Outcome | LearnerError) -> ItemReviewed:
    if isinstance(outcome, LearnerError):
        return ItemReviewed(id=item, ok=False, code=outcome.code, error=str(outcome))
    return ItemReviewed(id=item, ok=True, status=outcome.item.status, version=outcome.item.version)
