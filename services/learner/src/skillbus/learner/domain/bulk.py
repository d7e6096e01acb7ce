"""Imports many items in one transaction, each line accepted or rejected on its own, and exports them page by page."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from skillbus.common.paging import cut_page
from skillbus.contracts.learner.bulk import (
    ExportKnowledge,
    KnowledgeExported,
    KnowledgeItemPut,
    KnowledgePut,
    KnowledgePutOutcome,
    PutKnowledge,
)
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef, KnowledgeStatus
from skillbus.learner.domain.errors import ExternalIdTakenError, LearnerError, UnfitError, WrongStatusError
from skillbus.learner.domain.import_line import ImportLine, parse_line
from skillbus.learner.domain.index.index_waiter import IndexWaiter
from skillbus.learner.domain.item import lifecycle
from skillbus.learner.domain.item.lifecycle import Attribution, ItemChange
from skillbus.learner.domain.item.values import change_fields, generate_id, measure_item

_LEAST_VISIBLE_LAST: Final = (KnowledgeStatus.ACTIVE, KnowledgeStatus.PENDING, KnowledgeStatus.ARCHIVED)


@dataclass(frozen=True, slots=True)
class RecordedItem:
    item: KnowledgeItem
    indexed_version: int


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Results of an import and the changes that lead to them."""

    results: tuple[KnowledgeItemPut, ...]
    changes: tuple[ItemChange, ...]
    """Changes in their order; an item can have several."""
    unindexed: tuple[KnowledgeRef, ...]
    """Items of the import that the index lacks, as far as the record knows."""

    def summarize(self) -> str:
        """Return the number of lines with each outcome, for the audit."""
        counts = Counter(result.outcome for result in self.results)
        return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))


class ImportRecord(Protocol):
    """The record, for imports."""

    async def import_items(
        self,
        project: str,
        names: Sequence[str],
        plan: Callable[[Sequence[RecordedItem]], ImportPlan],
        by: Attribution,
        *,
        dry_run: bool,
    ) -> ImportPlan:
        """Call `plan` with the project's items of these ids or external ids, and write the planned changes.

        All of it is one transaction, which is repeated with a new plan if others wrote the same items.

        Raises:
            KnowledgeUnavailableError: nothing was written.
            ConcurrentChangeError: others wrote the same items several times in a row.
        """


@dataclass(frozen=True, slots=True)
class Importer:
    """Writes items that a caller sends, and waits for the index."""

    record: ImportRecord
    waiter: IndexWaiter
    now: Callable[[], datetime]
    on_write: Callable[[], None]
    """Called after each transaction that wrote something."""

    async def import_items(self, request: PutKnowledge) -> KnowledgePut:
        lines = list[ImportLine | UnfitError]()
        for value in request.items:
            try:
                lines.append(parse_line(value, request.source))
            except UnfitError as error:
                lines.append(error)
        by = Attribution(request.actor, self.now(), request.reason)
        names = {
            name for line in lines if isinstance(line, ImportLine) for name in (line.id, line.draft.external_id) if name
        }
        plan = await self.record.import_items(
            request.project,
            sorted(names),
            lambda known: _plan_import(lines, known, request, by),
            by,
            dry_run=request.dry_run,
        )
        if request.dry_run:
            return KnowledgePut(results=plan.results, indexed=False, unindexed=0)
        if plan.changes:
            self.on_write()
        unindexed = await self.waiter.wait_until_indexed(plan.unindexed, request.wait_indexed_s)
        return KnowledgePut(results=plan.results, indexed=not unindexed, unindexed=unindexed)


@dataclass(slots=True)
class _ImportedItems:
    """Items of the project that an import names, updated line by line."""

    project: str
    new_ids: Iterator[str]
    by_id: dict[str, KnowledgeItem]
    by_external_id: dict[str, str]
    changes: list[ItemChange] = field(default_factory=list)

    def find_item(self, line: ImportLine) -> KnowledgeItem | None:
        """Return the item of a line, by its own id first, then by its external id."""
        if line.id is not None and line.id in self.by_id:
            return self.by_id[line.id]
        known = self.by_external_id.get(line.draft.external_id or "")
        return None if known is None else self.by_id[known]

    def apply_change(self, change: ItemChange) -> KnowledgeItem:
        """Add a change to the plan and return the item after it. Raises ExternalIdTakenError."""
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


def _plan_import(
    lines: Sequence[ImportLine | UnfitError], known: Sequence[RecordedItem], request: PutKnowledge, by: Attribution
) -> ImportPlan:
    items = _ImportedItems(
        request.project,
        # Sorted: an export lists new items in the order of their lines.
        iter(sorted(generate_id(by.at) for _ in lines)),
        {one.item.id: one.item for one in known},
        {one.item.external_id: one.item.id for one in known if one.item.external_id is not None},
    )
    results = tuple(_plan_line(line, items, request.status, by) for line in lines)
    indexed = {one.item.id: one.indexed_version for one in known}
    if request.dry_run:  # the id of an item that is not created would mislead
        results = tuple(
            result if result.id in indexed else result.model_copy(update={"id": None}) for result in results
        )
    concerned = {result.id for result in results if result.id is not None}
    unindexed = tuple(
        KnowledgeRef.model_construct(project=request.project, id=item.id, version=item.version)
        for item in items.by_id.values()
        if item.id in concerned and indexed.get(item.id, 0) < item.version
    )
    return ImportPlan(results, tuple(items.changes), unindexed)


def _plan_line(
    line: ImportLine | UnfitError, items: _ImportedItems, status: KnowledgeStatus, by: Attribution
) -> KnowledgeItemPut:
    if isinstance(line, UnfitError):
        return KnowledgeItemPut(outcome=KnowledgePutOutcome.REJECTED, error=str(line))
    try:
        known = items.find_item(line)
        if known is None:
            return _to_result(KnowledgePutOutcome.CREATED, _create_item(line, items, status, by))
        newer = _update_item(line, known, items, by)
    except LearnerError as error:
        return KnowledgeItemPut(
            external_id=line.draft.external_id, outcome=KnowledgePutOutcome.REJECTED, error=str(error)
        )
    if newer is None:
        return _to_result(KnowledgePutOutcome.UNCHANGED, known)
    return _to_result(KnowledgePutOutcome.UPDATED, newer)


def _to_result(outcome: KnowledgePutOutcome, item: KnowledgeItem) -> KnowledgeItemPut:
    return KnowledgeItemPut(id=item.id, external_id=item.external_id, outcome=outcome, version=item.version)


def _create_item(line: ImportLine, items: _ImportedItems, status: KnowledgeStatus, by: Attribution) -> KnowledgeItem:
    """Create an item with the less visible status of the request's and the line's."""
    least = max(status, line.status or status, key=_LEAST_VISIBLE_LAST.index)
    first = KnowledgeStatus.ACTIVE if least is KnowledgeStatus.ARCHIVED else least
    made = items.apply_change(lifecycle.create_item(line.draft, next(items.new_ids), items.project, first, by))
    if least is KnowledgeStatus.ARCHIVED and (archived := lifecycle.archive_item(made, by)) is not None:
        return items.apply_change(archived)
    return made


def _update_item(
    line: ImportLine, known: KnowledgeItem, items: _ImportedItems, by: Attribution
) -> KnowledgeItem | None:
    if known.status is KnowledgeStatus.ARCHIVED:
        unchanged = change_fields(known, line.given, actor=by.actor, at=by.at) is None
        if line.status is KnowledgeStatus.ARCHIVED and unchanged:
            return None
        # An import must not bring a deleted item back, and must not report success for an item that is never found.
        raise WrongStatusError(known.id, known.status, "restore it, then import it again")
    change = lifecycle.update_item(known, line.given, by)
    return None if change is None else items.apply_change(change)


class ExportRecord(Protocol):
    """The record, for exports."""

    async def export_items(self, wanted: ExportKnowledge, at: datetime) -> Sequence[KnowledgeItem]:
        """Return a page ordered by id, and audit the first page of an export. Raises KnowledgeUnavailableError."""


@dataclass(frozen=True, slots=True)
class ItemExporter:
    record: ExportRecord
    now: Callable[[], datetime]

    async def export_page(self, wanted: ExportKnowledge) -> KnowledgeExported:
        items = await self.record.export_items(wanted, self.now())
        fit = cut_page(items, measure_item)
        more = len(fit) < len(items) or len(items) == wanted.limit
        return KnowledgeExported(items=tuple(fit), next=fit[-1].id if more else None)
