"""Writers of knowledge that continue when processes are killed, and keep a ledger of the replies."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import TypeVar

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_event
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.bulk import PUT_KNOWLEDGE, KnowledgePutOutcome, PutKnowledge
from skillbus.contracts.learner.index import KNOWLEDGE_CHANGED, KNOWLEDGE_INDEXED, KnowledgeChanged, KnowledgeIndexed
from skillbus.contracts.learner.items import (
    ARCHIVE_KNOWLEDGE,
    CREATE_KNOWLEDGE,
    RESTORE_KNOWLEDGE,
    UPDATE_KNOWLEDGE,
    ArchiveKnowledge,
    CreateKnowledge,
    KnowledgeWritten,
    RestoreKnowledge,
    UpdateKnowledge,
)
from skillbus.contracts.learner.knowledge import KnowledgeRef, KnowledgeStatus
from skillbus.contracts.retriever.knowledge_search import SEARCH_KNOWLEDGE, SearchKnowledge

from .ledger import Ledger, Said, said_of

ReplyT = TypeVar("ReplyT")

ANSWER_S = 2.0
PAUSE_S = 0.05
BATCH = 8
LOST = {ErrorCode.UNAVAILABLE, ErrorCode.DEADLINE_EXCEEDED}
"""Error codes of a request to a dead service."""
_LETTERS = "bcdfghjkmnpqtvwxz"


def word(number: int) -> str:
    """Return a word that no other item has and that stemming does not change."""
    letters = ""
    for _ in range(6):
        number, letter = divmod(number, len(_LETTERS))
        letters += _LETTERS[letter]
    return letters


async def search(bus: Bus, looked_for: str, top_k: int = 5) -> list[str]:
    """Return the ids of the items that a word finds, best first."""
    request = SearchKnowledge(query=looked_for, top_k=top_k, threshold=0, record_use=False)
    found = await bus.caller.call(SEARCH_KNOWLEDGE, request, timeout_s=5)
    return [hit.item.id for hit in found.results]


@dataclass
class Writer:
    """Creates items, and updates, archives and restores its own items."""

    bus: Bus
    ledger: Ledger
    chance: Random
    words: "count[int]"
    mine: list[str] = field(default_factory=list)
    archived: set[str] = field(default_factory=set)
    """Items whose archiving was acknowledged or is assumed."""

    async def write(self) -> None:
        while not self.ledger.over:
            if not self.mine or self.chance.random() < 0.4:
                await self._create()
            else:
                await self._change(self.chance.choice(self.mine))

    async def _create(self) -> None:
        """Create an item; repeat until it is acknowledged. The idempotency key makes all attempts one item."""
        title = word(next(self.words))
        draft = CreateKnowledge(
            type="business_rule", title=title, content="The first.", tags=("a", "b"), idempotency_key=title
        )
        while not self.ledger.over:
            try:
                written = await self.bus.caller.call(CREATE_KNOWLEDGE, draft, timeout_s=ANSWER_S)
            except RequestError as error:
                await _pause_if_lost(error)
                continue
            self.mine.append(written.item.id)
            await self._acknowledged(written)
            return

    async def _change(self, item: str) -> None:
        archiving = self.chance.random() < 0.3
        try:
            written = await self._asked(item, archiving=archiving)
        except RequestError as error:
            if error.code is ErrorCode.CONFLICT and self.ledger.unsure[item]:
                self.archived.add(item)  # by a request without a reply
                return
            # The caller repeats an archiving when the connection was lost: the first attempt may have succeeded.
            nobody = "service" in error.details and (item in self.archived or not archiving)
            self.ledger.unsure[item] += not nobody
            await _pause_if_lost(error)
            return
        await self._acknowledged(written)

    def _asked(self, item: str, *, archiving: bool) -> Awaitable[KnowledgeWritten]:
        call = self.bus.caller.call
        if item in self.archived:
            return call(RESTORE_KNOWLEDGE, RestoreKnowledge(id=item), timeout_s=ANSWER_S)
        if archiving:
            return call(ARCHIVE_KNOWLEDGE, ArchiveKnowledge(id=item), timeout_s=ANSWER_S)
        change = UpdateKnowledge(id=item, content=f"Another, {self.chance.random()}.", tags=("b", "c"))
        return call(UPDATE_KNOWLEDGE, change, timeout_s=ANSWER_S)

    async def _acknowledged(self, written: KnowledgeWritten) -> None:
        item = written.item
        self.ledger.acknowledge(item.id, item.version, said_of(item))
        gone = item.status is KnowledgeStatus.ARCHIVED
        (self.archived.add if gone else self.archived.discard)(item.id)
        if self.chance.random() < 0.3 and not self.ledger.unsure[item.id]:
            await self._look_for(written)

    async def _look_for(self, written: KnowledgeWritten) -> None:
        try:
            found = await search(self.bus, written.item.title)
        except RequestError:
            return  # a service that search needs is dead
        if written.item.status is KnowledgeStatus.ARCHIVED and written.item.id in found:
            self.ledger.ghosts.append(written.item.id)
        if written.item.status is KnowledgeStatus.ACTIVE and written.indexed and written.item.id not in found:
            self.ledger.lost.append(written.item.id)


@dataclass
class ImportWriter:
    """Imports batches, and repeats some of them with other contents."""

    bus: Bus
    ledger: Ledger
    chance: Random
    words: "count[int]"
    batches: list[tuple[str, ...]] = field(default_factory=list)

    async def write(self) -> None:
        rounds = count()
        while not self.ledger.over:
            again = self.batches and self.chance.random() < 0.5
            names = self.chance.choice(self.batches) if again else tuple(word(next(self.words)) for _ in range(BATCH))
            await self._import(names, f"Of round {next(rounds)}.")
            await asyncio.sleep(self.chance.uniform(0, 0.3))

    async def _import(self, names: tuple[str, ...], content: str) -> None:
        """Import a batch; repeat until it is acknowledged. Items that are already so do not change."""
        lines = tuple({"id": name, "type": "module_context", "title": name, "content": content} for name in names)
        doubted = False
        while not self.ledger.over:
            try:
                put = await self.bus.caller.call(PUT_KNOWLEDGE, PutKnowledge(items=lines), timeout_s=ANSWER_S)
            except RequestError as error:
                if not doubted:  # all attempts together make one version
                    self.ledger.unsure.update(self.ledger.batches.get(names[0], ()))
                doubted = True
                await _pause_if_lost(error)
                continue
            results = [one for one in put.results if one.outcome is not KnowledgePutOutcome.REJECTED]
            ids = [(one.id, one.version) for one in results if one.id is not None and one.version is not None]
            assert len(ids) == len(names), put.results
            for name, (item, version) in zip(names, ids, strict=True):
                self.ledger.acknowledge(item, version, Said(name, content, KnowledgeStatus.ACTIVE))
            if names not in self.batches:
                self.batches.append(names)
                self.ledger.batches[names[0]] = tuple(item for item, _ in ids)
            return


@dataclass
class Gossip:
    """Publishes events of changes and of indexed versions again: late, out of order, and with older versions."""

    bus: Bus
    ledger: Ledger
    chance: Random

    async def tell(self) -> None:
        for number in count():
            await asyncio.sleep(self.chance.uniform(0, 0.3))
            if self.ledger.over:
                return
            if known := [item for item, versions in self.ledger.said.items() if len(versions) > 1]:
                await self._tell(self.chance.choices(known, k=6), number)

    async def _tell(self, items: list[str], number: int) -> None:
        refs = tuple(
            KnowledgeRef(id=item, version=version)
            for item in dict.fromkeys(items)
            for version in sorted(self.ledger.said[item], reverse=True)[1:3]
        )
        try:
            told = KnowledgeChanged(items=refs)
            await publish_event(
                self.bus, KNOWLEDGE_CHANGED, told, identity="gossip", message_id=f"c:{number}", project="default"
            )
            heard = KnowledgeIndexed(items=refs)
            await publish_event(
                self.bus, KNOWLEDGE_INDEXED, heard, identity="gossip", message_id=f"i:{number}", project="default"
            )
        except RequestError as error:
            await _pause_if_lost(error)


async def _pause_if_lost(error: RequestError) -> None:
    if error.code not in LOST:
        raise error
    await asyncio.sleep(PAUSE_S)


async def write_all(bus: Bus, ledger: Ledger, seed: int, writers: int = 4) -> None:
    """Write until the ledger is over."""
    words = count()
    async with asyncio.TaskGroup() as group:
        for number in range(writers):
            group.create_task(Writer(bus, ledger, Random(f"{seed} {number}"), words).write())  # noqa: S311
        group.create_task(ImportWriter(bus, ledger, Random(f"{seed} import"), words).write())  # noqa: S311
        group.create_task(Gossip(bus, ledger, Random(f"{seed} gossip")).tell())  # noqa: S311
