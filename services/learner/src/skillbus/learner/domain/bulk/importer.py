"""Import: many items in one transaction, each taken or refused alone."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from pydantic import JsonValue

from skillbus.contracts.learner.bulk import KnowledgeItemPut, KnowledgePut, KnowledgePutOutcome, PutKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef, KnowledgeStatus
from skillbus.learner.domain.bulk.import_line import Line, read_line
from skillbus.learner.domain.errors import ExternalIdTakenError, LearnerError, UnfitError, WrongStatusError
from skillbus.learner.domain.index.index_waiter import IndexWaiter
from skillbus.learner.domain.item import lifecycle
from skillbus.learner.domain.item.lifecycle import By, Change
from skillbus.learner.domain.item.values import changed, new_id

_LEAST_SEEN: Final = (KnowledgeStatus.ACTIVE, KnowledgeStatus.PENDING, KnowledgeStatus.ARCHIVED)


@dataclass(frozen=True, slots=True)
class Known:
    """An item as the record has it."""

    item: KnowledgeItem
    indexed_version: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of the lines."""

    results: tuple[KnowledgeItemPut, ...]
    changes: tuple[Change, ...]
    """In their order; an item can have several."""
    awaited: tuple[KnowledgeRef, ...]
    """What the index does not have yet, as far as the record knows."""

    def summary(self) -> str:
        """For people: what became of how many."""
        counts = Counter(result.outcome for result in self.results)
        return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))


class ImportRecord(Protocol):
    """The record, for imports."""

    async def put(
        self, project: str, names: Sequence[str], plan: Callable[[Sequence[Known]], Plan], by: By, *, dry_run: bool
    ) -> Plan:
        """Plan with the project's items that have one of these ids or external ids, and write what is planned.

        All in one transaction; planned again when others wrote the same meanwhile.

        Raises:
            KnowledgeUnavailableError: nothing was written.
            ChangedMeanwhileError: others write the same again and again.
        """
        ...


class Importer:
    """Writes what others bring."""

    def __init__(
        self, record: ImportRecord, waiting: IndexWaiter, now: Callable[[], datetime], wrote: Callable[[], None]
    ) -> None:
        """`wrote` is called after each transaction that wrote something."""
        self._record = record
        self._waiting = waiting
        self._now = now
        self._wrote = wrote

    async def put(self, request: PutKnowledge) -> KnowledgePut:
        lines = [_read(value, request) for value in request.items]
        by = By(request.actor, self._now(), request.reason)
        names = {name for line in lines if isinstance(line, Line) for name in (line.id, line.draft.external_id) if name}
        plan = await self._record.put(
            request.project, sorted(names), lambda known: _plan(lines, known, request, by), by, dry_run=request.dry_run
        )
        if request.dry_run:
            return KnowledgePut(results=plan.results, indexed=False)
        if plan.changes:
            self._wrote()
        return KnowledgePut(results=plan.results, indexed=await self._waiting.indexed(plan.awaited))


def _read(value: JsonValue, request: PutKnowledge) -> Line | UnfitError:
    try:
        return read_line(value, request.source)
    except UnfitError as error:
        return error


@dataclass(slots=True)
class _Items:
    """The items of a project that are concerned, as they become line by line."""

    project: str
    new_ids: Iterator[str]
    by_id: dict[str, KnowledgeItem]
    by_external_id: dict[str, str]
    changes: list[Change] = field(default_factory=list)

    def named(self, line: Line) -> KnowledgeItem | None:
        """By its own id first, else by the external one."""
        if line.id is not None and line.id in self.by_id:
            return self.by_id[line.id]
        known = self.by_external_id.get(line.draft.external_id or "")
        return None if known is None else self.by_id[known]

    def become(self, change: Change) -> KnowledgeItem:
        item, before = change.item, change.before
        if item.external_id is not None and self.by_external_id.get(item.external_id, item.id) != item.id:
            raise ExternalIdTakenError(item.external_id, self.by_external_id[item.external_id])
        if before is not None and before.external_id is not None:
            self.by_external_id.pop(before.external_id, None)
        if item.external_id is not None:
            self.by_external_id[item.external_id] = item.id
        self.by_id[item.id] = item
        self.changes.append(change)
        return item


def _plan(lines: Sequence[Line | UnfitError], known: Sequence[Known], request: PutKnowledge, by: By) -> Plan:
    items = _Items(
        request.project,
        # In the order of the lines, in which an export then gives them.
        iter(sorted(new_id(by.at) for _ in lines)),
        {one.item.id: one.item for one in known},
        {one.item.external_id: one.item.id for one in known if one.item.external_id is not None},
    )
    results = tuple(_put(line, items, request.status, by) for line in lines)
    indexed = {one.item.id: one.indexed_version for one in known}
    if request.dry_run:  # nobody will know the id of an item that is not made
        results = tuple(
            result if result.id in indexed else result.model_copy(update={"id": None}) for result in results
        )
    concerned = {result.id for result in results if result.id is not None}
    awaited = tuple(
        KnowledgeRef.model_construct(project=request.project, id=item.id, version=item.version)
        for item in items.by_id.values()
        if item.id in concerned and indexed.get(item.id, 0) < item.version
    )
    return Plan(results, tuple(items.changes), awaited)


def _put(line: Line | UnfitError, items: _Items, status: KnowledgeStatus, by: By) -> KnowledgeItemPut:
    if isinstance(line, UnfitError):
        return KnowledgeItemPut(outcome=KnowledgePutOutcome.REJECTED, error=str(line))
    try:
        known = items.named(line)
        if known is None:
            return _told(KnowledgePutOutcome.CREATED, _create(line, items, status, by))
        newer = _update(line, known, items, by)
        return (
            _told(KnowledgePutOutcome.UNCHANGED, known) if newer is None else _told(KnowledgePutOutcome.UPDATED, newer)
        )
    except LearnerError as error:
        return KnowledgeItemPut(
            external_id=line.draft.external_id, outcome=KnowledgePutOutcome.REJECTED, error=str(error)
        )


def _told(outcome: KnowledgePutOutcome, item: KnowledgeItem) -> KnowledgeItemPut:
    return KnowledgeItemPut(id=item.id, external_id=item.external_id, outcome=outcome, version=item.version)


def _create(line: Line, items: _Items, status: KnowledgeStatus, by: By) -> KnowledgeItem:
    """A new item, of the request's status or the line's: of the one that is seen less."""
    least = max(status, line.status or status, key=_LEAST_SEEN.index)
    first = KnowledgeStatus.ACTIVE if least is KnowledgeStatus.ARCHIVED else least
    made = items.become(lifecycle.create(line.draft, next(items.new_ids), items.project, first, by))
    if least is KnowledgeStatus.ARCHIVED and (archived := lifecycle.archive(made, by)) is not None:
        return items.become(archived)
    return made


def _update(line: Line, known: KnowledgeItem, items: _Items, by: By) -> KnowledgeItem | None:
    if known.status is KnowledgeStatus.ARCHIVED:
        if line.status is KnowledgeStatus.ARCHIVED and changed(known, line.named, actor=by.actor, at=by.at) is None:
            return None
        # Whoever deleted it does not expect it back; whoever imports it does not expect that it is not found.
        raise WrongStatusError(known.id, known.status, "restore it, then import it again")
    change = lifecycle.update(known, line.named, by)
    return None if change is None else items.become(change)
