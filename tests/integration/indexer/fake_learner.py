"""A learner on the bus whose record is in memory, and which hears what the index has."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from uuid import NAMESPACE_OID, uuid5

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import Delivery, Subscription, consume, publish_event
from skillbus.common.bus.responder import route
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.index import (
    KNOWLEDGE_CHANGED,
    LIST_KNOWLEDGE_DIGESTS,
    READ_KNOWLEDGE,
    KnowledgeChanged,
    KnowledgeDigestsListed,
    KnowledgeIndexed,
    KnowledgeItemDigest,
    KnowledgeKey,
    KnowledgeRead,
    ListKnowledgeDigests,
    ReadKnowledge,
)
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef, KnowledgeStatus
from skillbus.contracts.resources import LEARNER_INDEXED

ItemId = tuple[str, str]
"""Project and id."""


def named(name: str) -> str:
    """The id of the item that tests call so."""
    return str(uuid5(NAMESPACE_OID, name))


def item(name: str, content: str = "Says something.", version: int = 1, **values: object) -> KnowledgeItem:
    """An active item unless `values` say otherwise."""
    now = datetime(2026, 11, 22, tzinfo=UTC)
    given = {
        "type": "business_rule",
        "title": f"Title of {name}",
        "digest": hashlib.sha256(f"{content}{sorted(values.items(), key=str)}".encode()).hexdigest(),
        "created_at": now,
        "updated_at": now,
    }
    return KnowledgeItem.model_validate({**given, "id": named(name), "content": content, "version": version, **values})


@dataclass
class FakeLearner:
    """The record, and what was asked and told."""

    bus: Bus
    items: dict[ItemId, KnowledgeItem] = field(default_factory=dict)
    indexed: dict[ItemId, int] = field(default_factory=dict)
    """Versions that the index is known to have."""
    heard: list[KnowledgeRef] = field(default_factory=list)
    """All that was said of the index, in its order."""
    read: list[Sequence[KnowledgeKey]] = field(default_factory=list)
    """What was asked for."""
    down: bool = False
    """Every request fails."""
    refused: int = 0
    """Requests for items that failed: the indexer followed an event in vain."""
    most: int = 40
    """Items of one reply."""
    page: int = 50
    """Digests of one reply."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    _changes: count = field(default_factory=count)  # type: ignore[type-arg]

    def has(self, *items: KnowledgeItem) -> None:
        """The record has these, and nobody is told."""
        self.items.update({(one.project, one.id): one for one in items})

    async def write(self, *items: KnowledgeItem) -> None:
        """The record has these, and one event tells of all."""
        self.has(*items)
        await self.tell(*items)

    async def tell(self, *items: KnowledgeItem) -> None:
        """Say that these were written."""
        refs = tuple(KnowledgeRef(project=one.project, id=one.id, version=one.version) for one in items)
        await publish_event(
            self.bus,
            KNOWLEDGE_CHANGED,
            KnowledgeChanged(items=refs),
            identity="test",
            message_id=f"changed:{next(self._changes)}",
            project=items[0].project,
        )

    async def until_heard_of(self, *items: KnowledgeItem, wait_s: float = 5.0) -> None:
        """Until it was told that the index has these, or later versions."""
        async with asyncio.timeout(wait_s):
            while any(self.indexed.get((one.project, one.id), 0) < one.version for one in items):
                self.news.clear()
                await self.news.wait()

    async def read_knowledge(self, request: ReadKnowledge) -> KnowledgeRead:
        self.refused += self.down
        self._check()
        self.read.append(request.keys)
        found = [self.items[key.project, key.id] for key in request.keys if (key.project, key.id) in self.items]
        left = tuple(KnowledgeKey(project=one.project, id=one.id) for one in found[self.most :])
        return KnowledgeRead(items=tuple(found[: self.most]), left=left)

    async def list_digests(self, request: ListKnowledgeDigests) -> KnowledgeDigestsListed:
        self._check()
        after = (request.after.project, request.after.id) if request.after else ("", "")
        keys = sorted(
            key
            for key, one in self.items.items()
            if one.status is KnowledgeStatus.ACTIVE and request.project in {None, one.project} and key > after
        )
        more = len(keys) > self.page
        digests = [self._digest(key) for key in keys[: self.page]]
        last = digests[-1] if more else None
        return KnowledgeDigestsListed(
            items=tuple(digests), next=last and KnowledgeKey(project=last.project, id=last.id)
        )

    async def on_indexed(self, delivery: Delivery) -> None:
        for ref in delivery.decode(KnowledgeIndexed).items:
            self.heard.append(ref)
            key = (ref.project, ref.id)
            self.indexed[key] = max(self.indexed.get(key, 0), ref.version)
        self.news.set()

    def _digest(self, key: ItemId) -> KnowledgeItemDigest:
        one = self.items[key]
        indexed = self.indexed.get(key, 0) >= one.version
        return KnowledgeItemDigest(
            project=one.project, id=one.id, version=one.version, digest=one.digest, indexed=indexed
        )

    def _check(self) -> None:
        if self.down:
            raise RequestError(ErrorCode.UNAVAILABLE, "the learner is down")


@asynccontextmanager
async def open_fake_learner(bus: Bus, learner: FakeLearner | None = None) -> AsyncGenerator[FakeLearner]:
    """It answers and hears while the context is open."""
    fake = learner or FakeLearner(bus)
    routes = [route(READ_KNOWLEDGE, fake.read_knowledge), route(LIST_KNOWLEDGE_DIGESTS, fake.list_digests)]
    async with (
        serve_routes(bus, "learner", routes, ServiceHealth("learner"), lambda _: None),
        consume(bus, [Subscription(LEARNER_INDEXED, fake.on_indexed)]),
    ):
        yield fake
