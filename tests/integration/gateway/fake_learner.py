"""A learner and a retriever that answer as the contracts say, from memory: enough of both to serve the REST API."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

from pydantic import ValidationError

from skillbus.common.bus.responder import Route, route
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner import knowledge as k
from skillbus.contracts.learner import usage
from skillbus.contracts.learner.bulk import (
    EXPORT_KNOWLEDGE,
    PUT_KNOWLEDGE,
    ExportKnowledge,
    KnowledgeExported,
    KnowledgeItemPut,
    KnowledgePut,
    KnowledgePutOutcome,
    PutKnowledge,
)
from skillbus.contracts.learner.items import (
    ARCHIVE_KNOWLEDGE,
    CREATE_KNOWLEDGE,
    GET_KNOWLEDGE,
    LIST_KNOWLEDGE,
    RESTORE_KNOWLEDGE,
    UPDATE_KNOWLEDGE,
    ArchiveKnowledge,
    CreateKnowledge,
    GetKnowledge,
    KnowledgeListed,
    KnowledgeSummary,
    KnowledgeWritten,
    ListKnowledge,
    RestoreKnowledge,
    UpdateKnowledge,
)
from skillbus.contracts.learner.projects import (
    GET_KNOWLEDGE_PROJECT,
    LIST_KNOWLEDGE_AUDIT,
    SET_KNOWLEDGE_PARENT,
    GetKnowledgeProject,
    KnowledgeAuditEntry,
    KnowledgeAuditListed,
    KnowledgeProject,
    ListKnowledgeAudit,
    SetKnowledgeParent,
)
from skillbus.contracts.learner.versions import (
    DIFF_KNOWLEDGE,
    GET_KNOWLEDGE_HISTORY,
    REVIEW_KNOWLEDGE,
    DiffKnowledge,
    ItemReviewed,
    KnowledgeDiffed,
    KnowledgeFieldDiff,
    KnowledgeReviewed,
    KnowledgeVersion,
    KnowledgeVersionsListed,
    ListKnowledgeVersions,
    ReviewAction,
    ReviewKnowledge,
)
from skillbus.contracts.retriever import knowledge_search as search

SEEDED = "01890000-0000-7000-8000-000000000000"
PENDING = "01890000-0000-7000-8000-000000000001"
_DRAFT = set(k.KnowledgeDraft.model_fields)


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass
class FakeLearner:
    """What was written, each item with its versions, the newest last."""

    held: dict[tuple[str, str], list[KnowledgeVersion]] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    audit: list[KnowledgeAuditEntry] = field(default_factory=list)
    page: int = 200
    """Items of one page of an export, at most."""
    breaks_after: str | None = None
    """The page behind this item cannot be read."""

    def __post_init__(self) -> None:
        draft = k.KnowledgeDraft.model_validate(CREATE_KNOWLEDGE.example)
        for item_id, status in ((SEEDED, k.KnowledgeStatus.ACTIVE), (PENDING, k.KnowledgeStatus.PENDING)):
            self._write("default", item_id, draft, status, k.KnowledgeChangeKind.CREATED, "seed", "")
            self._write("default", item_id, draft, status, k.KnowledgeChangeKind.UPDATED, "seed", "again")

    async def create(self, request: CreateKnowledge) -> KnowledgeWritten:
        self._refuse_other(request.project, request.external_id, "")
        return self._write(
            request.project,
            str(uuid4()),
            request,
            request.status,
            k.KnowledgeChangeKind.CREATED,
            request.actor,
            request.reason,
        )

    async def get(self, request: GetKnowledge) -> k.KnowledgeItem:
        return self._at(request.project, request.id, request.version).item

    async def list_items(self, request: ListKnowledge) -> KnowledgeListed:
        found = [
            item
            for item in self._items(request.project)
            if item.status in request.statuses
            and (not request.types or item.type in request.types)
            and (not request.tags or set(request.tags) & set(item.tags))
        ]
        start = int(request.after or 0) if (request.after or "").isdecimal() else 0
        page = found[start : start + request.limit]
        after = start + len(page)
        summaries = tuple(_summary(item) for item in page)
        return KnowledgeListed(items=summaries, total=len(found), next=str(after) if after < len(found) else None)

    async def update(self, request: UpdateKnowledge) -> KnowledgeWritten:
        item = self._expected(request.project, request.id, request.expected_version)
        said = request.model_dump(include=_DRAFT, exclude_none=True) | dict.fromkeys(request.clear)
        draft = k.KnowledgeDraft.model_validate(item.model_dump(include=_DRAFT) | said)
        self._refuse_other(request.project, draft.external_id, request.id)
        kind = k.KnowledgeChangeKind.UPDATED
        return self._write(request.project, request.id, draft, item.status, kind, request.actor, request.reason)

    async def archive(self, request: ArchiveKnowledge) -> KnowledgeWritten:
        return self._become(request, k.KnowledgeStatus.ARCHIVED, k.KnowledgeChangeKind.ARCHIVED)

    async def restore(self, request: RestoreKnowledge) -> KnowledgeWritten:
        if request.version is None:
            return self._become(request, k.KnowledgeStatus.ACTIVE, k.KnowledgeChangeKind.RESTORED)
        self._expected(request.project, request.id, request.expected_version)
        then = self._at(request.project, request.id, request.version).item
        kind = k.KnowledgeChangeKind.REVERTED
        return self._write(request.project, request.id, then, then.status, kind, request.actor, request.reason)

    async def history(self, request: ListKnowledgeVersions) -> KnowledgeVersionsListed:
        self._at(request.project, request.id, None)
        versions = self.held[request.project, request.id]
        below = [it for it in reversed(versions) if request.before is None or it.version < request.before]
        page = tuple(below[: request.limit])
        more = page[-1].version if page and len(below) > len(page) else None
        return KnowledgeVersionsListed(id=request.id, versions=page, total=len(versions), next=more)

    async def diff(self, request: DiffKnowledge) -> KnowledgeDiffed:
        before = self._at(request.project, request.id, request.from_version).item.model_dump(mode="json")
        after = self._at(request.project, request.id, request.to_version).item.model_dump(mode="json")
        changes = tuple(
            KnowledgeFieldDiff(field=name, before=before[name], after=after[name])
            for name in sorted(_DRAFT)
            if before[name] != after[name]
        )
        return KnowledgeDiffed(
            id=request.id, from_version=request.from_version, to_version=request.to_version, changes=changes
        )

    async def review(self, request: ReviewKnowledge) -> KnowledgeReviewed:
        results = tuple(self._reviewed(request, item_id) for item_id in request.ids)
        good = sum(result.ok for result in results)
        return KnowledgeReviewed(results=results, succeeded=good, failed=len(results) - good)

    async def put(self, request: PutKnowledge) -> KnowledgePut:
        return KnowledgePut(results=tuple(self._put(request, item) for item in request.items), indexed=True)

    async def export(self, request: ExportKnowledge) -> KnowledgeExported:
        if request.after is not None and request.after == self.breaks_after:
            raise RequestError(ErrorCode.INTERNAL, "The database is gone.")
        items = sorted(self._items(request.project), key=lambda item: item.id)
        wanted = [it for it in items if it.status in request.statuses and it.id > (request.after or "")]
        page = tuple(wanted[: min(request.limit, self.page)])
        return KnowledgeExported(items=page, next=page[-1].id if len(wanted) > len(page) else None)

    async def list_audit(self, request: ListKnowledgeAudit) -> KnowledgeAuditListed:
        found = [it for it in self.audit if it.project == request.project and it.sequence > request.after]
        page = tuple(found[: request.limit])
        return KnowledgeAuditListed(entries=page, next=page[-1].sequence if len(found) > len(page) else None)

    async def set_parent(self, request: SetKnowledgeParent) -> KnowledgeProject:
        if request.parent is None:
            self.parents.pop(request.project, None)
        elif request.project in {request.parent, *self._above(request.parent)}:
            raise RequestError(ErrorCode.CONFLICT, "A project cannot lie above itself.", retryable=False)
        else:
            self.parents[request.project] = request.parent
        return await self.project(GetKnowledgeProject(project=request.project))

    async def project(self, request: GetKnowledgeProject) -> KnowledgeProject:
        return KnowledgeProject(project=request.project, parents=tuple(self._above(request.project))[:8])

    async def feedback(self, request: usage.GiveFeedback) -> usage.ItemUsage:
        item = self._at(request.project, request.id, None).item
        rate = usage.HelpfulRate(share=1.0, low=0.2, high=1.0, count=1)
        return usage.ItemUsage(id=item.id, title=item.title, helpful=1, rate=rate, last_used_at=_now())

    async def used(self, request: usage.GetKnowledgeUsage) -> usage.ItemUsage:
        return usage.ItemUsage(id=self._at(request.project, request.id, None).item.id)

    async def stats(self, request: usage.GetKnowledgeStats) -> usage.KnowledgeStats:
        total = len(list(self._items(request.project)))
        by_status = {k.KnowledgeStatus.ACTIVE: total}
        return usage.KnowledgeStats(
            project=request.project,
            total=total,
            by_status=by_status,
            by_type={"business_rule": total},
            unindexed=0,
            searches=0,
            contexts=0,
        )

    async def find(self, request: search.SearchKnowledge) -> search.KnowledgeFound:
        hits = tuple(search.KnowledgeHit(item=item, score=0.5, cosine=0.5) for item in self._items(request.project))
        return search.KnowledgeFound(
            results=hits[: min(request.top_k, 3)], request_id=uuid4().hex, model="use", took_ms=1.0
        )

    async def context(self, request: search.BuildContext) -> search.ContextBuilt:
        if request.tokenizer is not None:
            raise RequestError(ErrorCode.NOT_FOUND, f"There is no tokenizer {request.tokenizer!r}.")
        return search.ContextBuilt(
            text="",
            tokens=0,
            budget_tokens=request.budget_tokens,
            counted_by="upper_bound",
            items=(),
            omitted=search.OmittedItems(over_budget=1, ids=(SEEDED,)),
            request_id=uuid4().hex,
            took_ms=1.0,
        )

    def routes(self) -> Iterator[Route]:
        """All that it answers."""
        yield route(CREATE_KNOWLEDGE, self.create)
        yield route(GET_KNOWLEDGE, self.get)
        yield route(LIST_KNOWLEDGE, self.list_items)
        yield route(UPDATE_KNOWLEDGE, self.update)
        yield route(ARCHIVE_KNOWLEDGE, self.archive)
        yield route(RESTORE_KNOWLEDGE, self.restore)
        yield route(GET_KNOWLEDGE_HISTORY, self.history)
        yield route(DIFF_KNOWLEDGE, self.diff)
        yield route(REVIEW_KNOWLEDGE, self.review)
        yield route(PUT_KNOWLEDGE, self.put)
        yield route(EXPORT_KNOWLEDGE, self.export)
        yield route(LIST_KNOWLEDGE_AUDIT, self.list_audit)
        yield route(SET_KNOWLEDGE_PARENT, self.set_parent)
        yield route(GET_KNOWLEDGE_PROJECT, self.project)
        yield route(usage.GIVE_FEEDBACK, self.feedback)
        yield route(usage.GET_KNOWLEDGE_USAGE, self.used)
        yield route(usage.GET_KNOWLEDGE_STATS, self.stats)
        yield route(search.SEARCH_KNOWLEDGE, self.find)
        yield route(search.BUILD_CONTEXT, self.context)

    def _items(self, project: str) -> Iterator[k.KnowledgeItem]:
        return (versions[-1].item for (owner, _), versions in self.held.items() if owner == project)

    def _at(self, project: str, item_id: str, version: int | None) -> KnowledgeVersion:
        versions = self.held.get((project, item_id), [])
        wanted = len(versions) if version is None else version
        if not 1 <= wanted <= len(versions):
            raise RequestError(ErrorCode.NOT_FOUND, f"There is no item {item_id!r} in project {project!r}.")
        return versions[wanted - 1]

    def _expected(self, project: str, item_id: str, version: int | None) -> k.KnowledgeItem:
        item = self._at(project, item_id, None).item
        if version is not None and version != item.version:
            raise RequestError(ErrorCode.PRECONDITION_FAILED, f"The item is at version {item.version}: read it again.")
        return item

    def _refuse_other(self, project: str, external_id: str | None, item_id: str) -> None:
        named = {it.id for it in self._items(project) if it.external_id == external_id}
        if external_id is not None and named - {item_id}:
            raise RequestError(ErrorCode.CONFLICT, "Another item has this external_id.", retryable=False)

    def _become(
        self, request: ArchiveKnowledge, status: k.KnowledgeStatus, kind: k.KnowledgeChangeKind
    ) -> KnowledgeWritten:
        item = self._expected(request.project, request.id, request.expected_version)
        if item.status is status:
            return KnowledgeWritten(item=item, indexed=True, repeated=True)
        return self._write(request.project, request.id, item, status, kind, request.actor, request.reason)

    def _reviewed(self, request: ReviewKnowledge, item_id: str) -> ItemReviewed:
        item = next((it for it in self._items(request.project) if it.id == item_id), None)
        if item is None:
            return ItemReviewed(id=item_id, ok=False, code=ErrorCode.NOT_FOUND, error="There is no such item.")
        if item.status is not k.KnowledgeStatus.PENDING:
            return ItemReviewed(id=item_id, ok=False, code=ErrorCode.CONFLICT, error="It is not pending.")
        approved = request.action is ReviewAction.APPROVE
        status = k.KnowledgeStatus.ACTIVE if approved else k.KnowledgeStatus.ARCHIVED
        kind = k.KnowledgeChangeKind.APPROVED if approved else k.KnowledgeChangeKind.REJECTED
        written = self._write(request.project, item_id, item, status, kind, request.actor, request.reason).item
        return ItemReviewed(id=item_id, ok=True, status=written.status, version=written.version)

    def _put(self, request: PutKnowledge, value: object) -> KnowledgeItemPut:
        try:
            draft = k.KnowledgeDraft.model_validate(value)
        except ValidationError as error:
            return KnowledgeItemPut(outcome=KnowledgePutOutcome.REJECTED, error=str(error.errors()[0]["msg"]))
        name = draft.external_id or (str(value["id"]) if isinstance(value, dict) and "id" in value else None)
        known = next(
            (it.id for it in self._items(request.project) if name is not None and it.external_id == name), None
        )
        outcome = KnowledgePutOutcome.UPDATED if known else KnowledgePutOutcome.CREATED
        if request.dry_run:
            return KnowledgeItemPut(external_id=name, outcome=outcome)
        draft = draft.model_copy(update={"external_id": name})
        kind = k.KnowledgeChangeKind.UPDATED if known else k.KnowledgeChangeKind.CREATED
        item_id = known or str(uuid4())
        written = self._write(request.project, item_id, draft, request.status, kind, request.actor, request.reason)
        return KnowledgeItemPut(id=item_id, external_id=name, outcome=outcome, version=written.item.version)

    def _write(
        self,
        project: str,
        item_id: str,
        draft: k.KnowledgeDraft,
        status: k.KnowledgeStatus,
        kind: k.KnowledgeChangeKind,
        actor: str,
        reason: str,
    ) -> KnowledgeWritten:
        versions, now = self.held.setdefault((project, item_id), []), _now()
        item = k.KnowledgeItem(
            **draft.model_dump(include=_DRAFT),
            id=item_id,
            project=project,
            status=status,
            version=len(versions) + 1,
            digest="0" * 64,
            created_at=versions[0].at if versions else now,
            created_by=versions[0].by if versions else actor,
            updated_at=now,
            updated_by=actor,
        )
        versions.append(KnowledgeVersion(version=item.version, change=kind, at=now, by=actor, reason=reason, item=item))
        sequence = len(self.audit) + 1
        entry = KnowledgeAuditEntry(sequence=sequence, at=now, actor=actor, action=kind, project=project, id=item_id)
        self.audit.append(entry)
        return KnowledgeWritten(item=item, indexed=True)

    def _above(self, project: str) -> Iterator[str]:
        while (parent := self.parents.get(project)) is not None:
            yield parent
            project = parent


def _summary(item: k.KnowledgeItem) -> KnowledgeSummary:
    shared = item.model_dump(include=set(KnowledgeSummary.model_fields))
    return KnowledgeSummary(**shared, excerpt=item.content[:300])
