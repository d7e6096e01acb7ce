"""Operations on the knowledge base."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal
from uuid import uuid4

import httpx

from skillbus.client.call import parse_reply
from skillbus.client.operation import (
    LineParser,
    ReplyParser,
    custom_operation,
    ignore_reply,
    json_operation,
    prepare_fields,
    stream_operation,
)
from skillbus.client.operations.tools import CONTENT_NDJSON, IMPORT_S, format_ndjson
from skillbus.client.route import HttpRoute, PreparedRequest
from skillbus.contracts.http import KnowledgeImported, SuggestKnowledge
from skillbus.contracts.learner.items import (
    ArchiveKnowledge,
    CreateKnowledge,
    GetKnowledge,
    KnowledgeChanges,
    KnowledgeListed,
    KnowledgeWritten,
    ListKnowledge,
    RestoreKnowledge,
)
from skillbus.contracts.learner.knowledge import (
    ANYBODY,
    Actor,
    KnowledgeDraft,
    KnowledgeId,
    KnowledgeItem,
    VersionNumber,
)
from skillbus.contracts.learner.projects import (
    GetKnowledgeProject,
    KnowledgeAuditListed,
    KnowledgeProject,
    ListKnowledgeAudit,
)
from skillbus.contracts.learner.proposals import GetProposal, ListProposals, ProposalsListed, WaitingProposal
from skillbus.contracts.learner.usage import (
    GetKnowledgeStats,
    GetKnowledgeUsage,
    GiveFeedback,
    ItemUsage,
    KnowledgeStats,
)
from skillbus.contracts.learner.versions import (
    DiffKnowledge,
    KnowledgeDiffed,
    KnowledgeReviewed,
    KnowledgeVersionsListed,
    ListKnowledgeVersions,
    ReviewKnowledge,
)
from skillbus.contracts.message import DEFAULT_PROJECT, Project
from skillbus.contracts.retriever.knowledge_search import BuildContext, ContextBuilt, KnowledgeFound, SearchKnowledge

_KNOWLEDGE: Final = "/api/knowledge"
_ITEM: Final = "/api/knowledge/{id}"
_PROJECT: Final = ("project",)
_VERSIONED: Final = ("actor", "expected_version")


class ChangedItem(KnowledgeChanges):
    """Change of an item. Fields that are not given stay; None clears `valid_from`, `valid_to` and `external_id`."""

    id: KnowledgeId
    project: Project = DEFAULT_PROJECT
    actor: Actor = ANYBODY
    expected_version: VersionNumber | None = None
    """Version that the caller read. If the item has another one, the request fails with `precondition_failed`."""


class KnowledgeLineParser(LineParser[KnowledgeItem]):
    """Parser of an export: one item per line."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    def feed_line(self, line: str) -> KnowledgeItem | None:
        """Return the item of a line."""
        return parse_reply(KnowledgeItem, line, self._response) if line else None

    def finish(self) -> None:
        """Accept the end. An export that fails closes the connection instead."""


def _prepare_import(  # noqa: PLR0913 (each is a parameter of the operation)
    items: Iterable[KnowledgeDraft | Mapping[str, object]],
    *,
    source: str | None = None,
    status: str | None = None,
    dry_run: bool | None = None,
    reason: str | None = None,
    wait: Literal["indexed"] | None = None,
    only: Literal["problems"] | None = None,
    project: str | None = None,
    actor: str | None = None,
) -> PreparedRequest:
    options = {"source": source, "status": status, "dry_run": dry_run, "reason": reason, "wait": wait, "only": only}
    return PreparedRequest({**options, "project": project, "actor": actor}, format_ndjson(items), CONTENT_NDJSON)


def _prepare_export(
    *, types: Sequence[str] = (), statuses: Sequence[str] = (), project: str | None = None
) -> PreparedRequest:
    return PreparedRequest({"types": list(types), "statuses": list(statuses), "project": project})


def _prepare_parent(*, parent: str | None, project: str | None = None, actor: str | None = None) -> PreparedRequest:
    return PreparedRequest({"parent": parent, "actor": actor, "project": project or DEFAULT_PROJECT})


class KnowledgeOperations:
    """The knowledge base: search, contexts, items, versions, review, import and export."""

    search_knowledge = json_operation(
        "POST", f"{_KNOWLEDGE}/search", SearchKnowledge, KnowledgeFound, is_idempotent=True
    )
    """Find the knowledge that fits a query and a scope, in any language. If nothing fits, `results` is empty."""
    build_context = json_operation("POST", f"{_KNOWLEDGE}/context", BuildContext, ContextBuilt, is_idempotent=True)
    """Write the knowledge that fits a query as a context for a model, within a token budget."""
    list_knowledge = json_operation(
        "GET", _KNOWLEDGE, ListKnowledge, KnowledgeListed, renamed={"types": "type", "statuses": "status"}
    )
    """List one page of items, latest change first. Without `statuses`, only active items are listed."""
    create_knowledge = json_operation(
        "POST",
        _KNOWLEDGE,
        CreateKnowledge,
        KnowledgeWritten,
        generated={"idempotency_key": lambda: uuid4().hex},
        is_idempotent=True,
    )
    """Create an item. An idempotency key is made unless one is given, so that a repetition is safe."""
    suggest_knowledge = json_operation(
        "POST",
        f"{_KNOWLEDGE}/suggest",
        SuggestKnowledge,
        KnowledgeWritten,
        generated={"idempotency_key": lambda: uuid4().hex},
        is_idempotent=True,
    )
    """Suggest an item, which is pending until an editor has approved it. The role runner is enough."""
    get_knowledge = json_operation("GET", _ITEM, GetKnowledge, KnowledgeItem)
    """Return one item: its current version, a given version, or the version of a given time."""
    update_knowledge = json_operation(
        "PUT", _ITEM, ChangedItem, KnowledgeWritten, in_query=_PROJECT, in_header=_VERSIONED, is_idempotent=False
    )
    """Change an item. The change makes a new version; the previous one stays in the history."""
    archive_knowledge = custom_operation(
        HttpRoute("DELETE", _ITEM, in_header=_VERSIONED), prepare_fields(ArchiveKnowledge), ignore_reply
    )
    """Archive an item: it is kept with its history, but searches no longer find it until it is restored."""
    restore_knowledge = json_operation(
        "POST", f"{_ITEM}/restore", RestoreKnowledge, KnowledgeWritten, in_query=_PROJECT, in_header=_VERSIONED
    )
    """Restore an item from the archive, or restore an earlier version as a new version."""
    get_knowledge_history = json_operation("GET", f"{_ITEM}/history", ListKnowledgeVersions, KnowledgeVersionsListed)
    """List the versions of an item in full, newest first, with actor, time, kind and reason of each change."""
    diff_knowledge = json_operation(
        "GET",
        f"{_ITEM}/diff",
        DiffKnowledge,
        KnowledgeDiffed,
        renamed={"from_version": "from", "to_version": "to"},
    )
    """Compare two versions of an item field by field, and texts word by word."""
    give_feedback = json_operation(
        "POST",
        f"{_ITEM}/feedback",
        GiveFeedback,
        ItemUsage,
        in_query=_PROJECT,
        in_header=("actor",),
        is_idempotent=True,
    )
    """Record whether an item helped with a query. The latest feedback of each actor for each query counts."""
    get_knowledge_usage = json_operation("GET", f"{_ITEM}/usage", GetKnowledgeUsage, ItemUsage)
    """Return how often an item was used, and its feedback."""
    review_knowledge = json_operation("POST", f"{_KNOWLEDGE}/review", ReviewKnowledge, KnowledgeReviewed)
    """Approve, reject, merge, supersede or snooze up to 256 pending items. Each has its own result in `results`."""
    list_proposals = json_operation("GET", f"{_KNOWLEDGE}/proposals", ListProposals, ProposalsListed)
    """List the learned items that wait for review, with their evidence and the items that they would change."""
    get_proposal = json_operation("GET", f"{_ITEM}/proposal", GetProposal, WaitingProposal)
    """Return the evidence and the proposal of a learned item, also after its review."""
    import_knowledge = custom_operation(
        HttpRoute(
            "POST",
            f"{_KNOWLEDGE}/import",
            in_query=("source", "status", "dry_run", "reason", "wait", "only", "project"),
            in_header=("actor",),
            timeout_s=IMPORT_S,
            is_idempotent=True,
        ),
        _prepare_import,
        ReplyParser(KnowledgeImported),
    )
    """Create or update items. An invalid one is reported by its number, and the others are imported."""
    export_knowledge = stream_operation(
        HttpRoute("GET", f"{_KNOWLEDGE}/export", renamed={"types": "type", "statuses": "status"}),
        _prepare_export,
        KnowledgeLineParser,
    )
    """Yield whole items, as they arrive. Without `statuses`, only active items."""
    get_knowledge_stats = json_operation("GET", f"{_KNOWLEDGE}/stats", GetKnowledgeStats, KnowledgeStats)
    """Return statistics of a project: used, never used and stale items, and queries without a result."""
    list_knowledge_audit = json_operation("GET", f"{_KNOWLEDGE}/audit", ListKnowledgeAudit, KnowledgeAuditListed)
    """List the audit log, oldest entry first: who changed what and when. `next` is the `after` of the next page."""
    get_knowledge_project = json_operation(
        "GET", f"{_KNOWLEDGE}/projects/{{project}}", GetKnowledgeProject, KnowledgeProject
    )
    """Return the parent projects from which a project inherits items, nearest first."""
    set_knowledge_parent = custom_operation(
        HttpRoute("PUT", f"{_KNOWLEDGE}/projects/{{project}}", in_header=("actor",)),
        _prepare_parent,
        ReplyParser(KnowledgeProject),
    )
    """Set the parent project from which a project inherits items. None removes it."""
