"""The knowledge base as a whole: search, contexts, review, import, export, statistics, audit log and projects."""

import json
from dataclasses import dataclass
from typing import Annotated, Final

import structlog
from fastapi import Path, Query, Request, Response
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Send

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.http import KnowledgeImported
from skillbus.contracts.learner.bulk import EXPORT_KNOWLEDGE, PUT_KNOWLEDGE
from skillbus.contracts.learner.projects import (
    GET_KNOWLEDGE_PROJECT,
    LIST_KNOWLEDGE_AUDIT,
    SET_KNOWLEDGE_PARENT,
    GetKnowledgeProject,
    KnowledgeAuditListed,
    KnowledgeProject,
    ListKnowledgeAudit,
    SetKnowledgeParent,
)
from skillbus.contracts.learner.proposals import LIST_PROPOSALS, ListProposals, ProposalsListed
from skillbus.contracts.learner.usage import GET_KNOWLEDGE_STATS, GetKnowledgeStats, KnowledgeStats
from skillbus.contracts.learner.versions import REVIEW_KNOWLEDGE, KnowledgeReviewed, ReviewKnowledge
from skillbus.contracts.message import Project
from skillbus.contracts.retriever.knowledge_search import (
    BUILD_CONTEXT,
    SEARCH_KNOWLEDGE,
    BuildContext,
    SearchKnowledge,
)
from skillbus.gateway.domain.access.principal import get_caller
from skillbus.gateway.domain.knowledge import NDJSON, KnowledgeImporter, KnowledgeImportOptions, open_export
from skillbus.gateway.domain.knowledge_markdown import MEDIA_TYPE
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import Documented, DocumentedRouter, make_json_response
from skillbus.gateway.service.knowledge.items import KNOWLEDGE
from skillbus.gateway.service.knowledge.parameters import ActorInHeader, KnowledgeExportQuery, ParentBody, choose_actor

ProjectInPath = Annotated[Project, Path()]

log = structlog.get_logger(__name__)


class KnowledgeLines(StreamingResponse):
    """Items to save, one JSON object per line."""

    media_type = NDJSON

    async def stream_response(self, send: Send) -> None:
        """Send the items. After an error the body stays without its end, and the server closes the connection."""
        try:
            await super().stream_response(send)
        except RequestError as error:
            log.warning("knowledge_export_failed", code=error.code, reason=error.message)


@dataclass(frozen=True, slots=True)
class KnowledgeBaseRoutes:
    """Handlers of the knowledge base as a whole."""

    caller: BusCaller
    importer: KnowledgeImporter

    async def search_knowledge(self, body: SearchKnowledge) -> Response:
        """Find the knowledge that fits a query and a scope, in any language. If nothing fits, `results` is empty.

        With `explain`, the reply says what each stage did and how each score came about.
        """
        return make_json_response(await self.caller.call_for_json(SEARCH_KNOWLEDGE, body))

    async def build_context(self, body: BuildContext) -> Response:
        """Write the knowledge that fits a query as a context for a model, within a token budget."""
        return make_json_response(await self.caller.call_for_json(BUILD_CONTEXT, body))

    async def list_proposals(self, page: Annotated[ListProposals, Query()]) -> ProposalsListed:
        """List the learned items that wait for review, with their evidence and the items that they would change.

        `next` is the `after` of the next page.
        """
        return await self.caller.call(LIST_PROPOSALS, page)

    async def review_knowledge(self, body: ReviewKnowledge, actor: ActorInHeader = None) -> KnowledgeReviewed:
        """Approve, reject, merge, supersede or snooze up to 256 pending items. Each has its own result in `results`."""
        asked = body.model_copy(update={"actor": choose_actor(actor, body)})
        return await self.caller.call(REVIEW_KNOWLEDGE, asked)

    async def import_knowledge(
        self, request: Request, options: Annotated[KnowledgeImportOptions, Query()], actor: ActorInHeader = None
    ) -> KnowledgeImported:
        """Create or update items. The body is NDJSON, one item per line, or one JSON array.

        The body is processed while it arrives, up to 64 MiB and 200,000 lines. An invalid line, or one over 512 KiB, is
        reported by its number, and the other lines are imported. An `id` that is not the id of an item is stored as the
        `external_id`. Unchanged items get no new version. With `dry_run` nothing is written, and each batch of 200
        items is checked on its own.

        With `Content-Type: text/markdown` the body is one item with YAML front matter, up to 1 MiB.
        """
        is_markdown = request.headers.get("content-type", "").partition(";")[0].strip().lower() == MEDIA_TYPE
        import_stream = self.importer.import_markdown if is_markdown else self.importer.import_body
        try:
            return await import_stream(request.stream(), options, choose_actor(actor))
        except ClientDisconnect as error:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The body is incomplete.") from error

    async def export_knowledge(self, query: Annotated[KnowledgeExportQuery, Query()]) -> KnowledgeLines:
        """Export whole items as NDJSON, which `/api/knowledge/import` accepts. Without `status`, only active items.

        An error during the export closes the connection before the end of the body.
        """
        headers = {
            "Content-Disposition": 'attachment; filename="knowledge.jsonl"',
        }
        return KnowledgeLines(await open_export(self.caller, query.to_request()), headers=headers)

    async def get_knowledge_stats(self, query: Annotated[GetKnowledgeStats, Query()]) -> KnowledgeStats:
        """Return statistics of a project: used, never used and stale items, and queries without a result."""
        return await self.caller.call(GET_KNOWLEDGE_STATS, query)

    async def list_knowledge_audit(self, page: Annotated[ListKnowledgeAudit, Query()]) -> KnowledgeAuditListed:
        """List the audit log, oldest entry first: who changed what and when. `next` is the `after` of the next page."""
        return await self.caller.call(LIST_KNOWLEDGE_AUDIT, page)

    async def get_knowledge_project(self, project: ProjectInPath) -> KnowledgeProject:
        """Return the parent projects from which a project inherits items, nearest first."""
        return await self.caller.call(GET_KNOWLEDGE_PROJECT, GetKnowledgeProject(project=project))

    async def set_knowledge_parent(
        self, project: ProjectInPath, body: ParentBody, request: Request, actor: ActorInHeader = None
    ) -> KnowledgeProject:
        """Set the parent project from which a project inherits items. Null removes it.

        The key must belong to the parent too, because its items become visible in the project.
        """
        if body.parent is not None:
            get_caller(request.scope).check_project(body.parent)
        asked = SetKnowledgeParent(project=project, parent=body.parent, actor=choose_actor(actor))
        return await self.caller.call(SET_KNOWLEDGE_PARENT, asked)


_EXAMPLE: Final = {"id": "faq-1", "type": "module_context", "title": "APISIX", "content": "An API gateway."}
_MARKDOWN: Final = (
    "---\nexternal_id: faq-1\ntype: module_context\ntitle: APISIX\ntags: [faq, en]\n---\n\nAn API gateway.\n"
)
_ITEMS: Final[dict[str, object]] = {
    "requestBody": {
        "required": True,
        "content": {
            NDJSON: {
                "schema": {"type": "string", "description": "One `KnowledgeDraft` per line."},
                "example": f"{json.dumps(_EXAMPLE, ensure_ascii=False)}\n",
            },
            "application/json": {
                "schema": {"type": "array", "items": {"$ref": "#/components/schemas/KnowledgeDraft"}},
                "example": [_EXAMPLE],
            },
            MEDIA_TYPE: {
                "schema": {"type": "string", "description": "One item: YAML front matter and content."},
                "example": _MARKDOWN,
            },
        },
    }
}
"""Documentation of a body that the handler reads itself."""
_EXPORTED: Final[Documented] = {
    200: {"content": {NDJSON: {"schema": {"type": "string", "description": "One `KnowledgeItem` per line."}}}}
}


def add_knowledge_base_routes(router: DocumentedRouter, routes: KnowledgeBaseRoutes) -> None:
    """Add the routes of the whole base."""
    project = f"{KNOWLEDGE}/projects/{{project}}"
    for path, role, handler, endpoint in (
        ("search", Role.READER, routes.search_knowledge, SEARCH_KNOWLEDGE),
        ("context", Role.READER, routes.build_context, BUILD_CONTEXT),
        ("review", Role.EDITOR, routes.review_knowledge, REVIEW_KNOWLEDGE),
    ):
        router.add(
            "POST",
            f"{KNOWLEDGE}/{path}",
            role,
            handler,
            endpoint.errors,
            example=endpoint.example,
            reply=endpoint.reply,
        )
    router.add("POST", f"{KNOWLEDGE}/import", Role.EDITOR, routes.import_knowledge, PUT_KNOWLEDGE.errors, body=_ITEMS)
    export = router.with_replies(_EXPORTED)
    export.add(
        "GET",
        f"{KNOWLEDGE}/export",
        Role.READER,
        routes.export_knowledge,
        EXPORT_KNOWLEDGE.errors,
        response=KnowledgeLines,
    )
    router.add("GET", f"{KNOWLEDGE}/proposals", Role.READER, routes.list_proposals, LIST_PROPOSALS.errors)
    router.add("GET", f"{KNOWLEDGE}/stats", Role.READER, routes.get_knowledge_stats, GET_KNOWLEDGE_STATS.errors)
    router.add("GET", f"{KNOWLEDGE}/audit", Role.READER, routes.list_knowledge_audit, LIST_KNOWLEDGE_AUDIT.errors)
    router.add("GET", project, Role.READER, routes.get_knowledge_project, GET_KNOWLEDGE_PROJECT.errors)
    parent: dict[str, object] = {"parent": "default"}
    router.add("PUT", project, Role.ADMIN, routes.set_knowledge_parent, SET_KNOWLEDGE_PARENT.errors, example=parent)
