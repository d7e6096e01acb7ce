"""The knowledge base: applies the rules of the lifecycle to requests, and writes the result."""

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
from skillbus.learner.domain.errors import UnfitError
from skillbus.learner.domain.index.index_waiter import IndexWaiter
from skillbus.learner.domain.item import lifecycle
from skillbus.learner.domain.item.lifecycle import Attribution, ItemChange
from skillbus.learner.domain.item.ports import (
    Decide,
    IdempotencyKey,
    KnowledgeReader,
    KnowledgeStore,
    WriteOutcome,
)
from skillbus.learner.domain.item.values import generate_id

_KEYS_LAST: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """Writes and reads items. Replies to writes wait for the index. Every method raises LearnerError."""

    store: KnowledgeStore
    reader: KnowledgeReader
    waiter: IndexWaiter
    on_write: Callable[[], None]
    """Called after each transaction that filled the outbox."""
    now: Callable[[], datetime]

    async def create_item(self, request: CreateKnowledge) -> KnowledgeWritten:
        by = Attribution(request.actor, self.now(), request.reason)
        change = lifecycle.create_item(request, generate_id(by.at), request.project, request.status, by)
        key = None
        if request.idempotency_key is not None:
            body = request.model_dump_json(exclude={"idempotency_key", "actor", "reason"})
            key = IdempotencyKey(request.idempotency_key, sha256(body.encode()).hexdigest(), by.at - _KEYS_LAST)
        return await self._reply(await self.store.create_item(change, key))

    async def update_item(self, request: UpdateKnowledge) -> KnowledgeWritten:
        changes = lifecycle.collect_changes(request)
        by = Attribution(request.actor, self.now(), request.reason)
        return await self._change(request, lambda item: lifecycle.update_item(item, changes, by))

    async def archive_item(self, request: ArchiveKnowledge) -> KnowledgeWritten:
        by = Attribution(request.actor, self.now(), request.reason)
        return await self._change(request, lambda item: lifecycle.archive_item(item, by))

    async def restore_item(self, request: RestoreKnowledge) -> KnowledgeWritten:
        """Activate an archived item, or bring an earlier version back as a new one."""
        by = Attribution(request.actor, self.now(), request.reason)
        if request.version is None:
            return await self._change(request, lambda item: lifecycle.restore_item(item, by))
        # Versions never change: this one can be read before the transaction.
        then = await self.reader.get_version(request.project, request.id, request.version)
        return await self._change(request, lambda item: lifecycle.revert_item(item, then, by))

    async def get_item(self, request: GetKnowledge) -> KnowledgeItem:
        """Return the newest version, a given one, or the version at a time."""
        if request.version is not None and request.as_of is not None:
            raise UnfitError("`version` and `as_of` are both given: give one of them")
        if request.version is not None:
            return await self.reader.get_version(request.project, request.id, request.version)
        if request.as_of is not None:
            return await self.reader.get_as_of(request.project, request.id, request.as_of)
        return await self.reader.get_current(request.project, request.id)

    async def _change(
        self, request: UpdateKnowledge | ArchiveKnowledge | RestoreKnowledge, decide: Decide
    ) -> KnowledgeWritten:
        def decide_at_version(item: KnowledgeItem) -> ItemChange | None:
            lifecycle.require_version(item, request.expected_version)
            return decide(item)

        return await self._reply(await self.store.change_item(request.project, request.id, decide_at_version))

    async def _reply(self, outcome: WriteOutcome) -> KnowledgeWritten:
        if not outcome.repeated:
            self.on_write()
        indexed = outcome.indexed or not await self.waiter.wait_until_indexed([_to_ref(outcome.item)])
        return KnowledgeWritten(item=outcome.item, indexed=indexed, repeated=outcome.repeated)


def _to_ref(item: KnowledgeItem) -> KnowledgeRef:
    return KnowledgeRef(project=item.project, id=item.id, version=item.version)
