"""The knowledge base as a whole: search, contexts, review, import and export, statistics, the audit, and projects."""

import json
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Annotated, Final

import structlog
from fastapi import Path, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Send

from skillbus.contracts.errors import ErrorCode, RequestError
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
from skillbus.contracts.learner.usage import GET_KNOWLEDGE_STATS, GetKnowledgeStats, KnowledgeStats
from skillbus.contracts.learner.versions import REVIEW_KNOWLEDGE, KnowledgeReviewed, ReviewKnowledge
from skillbus.contracts.message import Project
from skillbus.contracts.retriever.knowledge_search import (
    BUILD_CONTEXT,
    SEARCH_KNOWLEDGE,
    BuildContext,
    ContextBuilt,
    KnowledgeFound,
    SearchKnowledge,
)
from skillbus.gateway.domain.knowledge import exporter
from skillbus.gateway.domain.knowledge.exporter import KnowledgeExporter
from skillbus.gateway.domain.knowledge.importer import KnowledgeImporter, KnowledgeWishes
from skillbus.gateway.domain.knowledge.markdown import MEDIA_TYPE
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import WITH_BODY, Documented, DocumentedRouter
from skillbus.gateway.service.knowledge.items import KNOWLEDGE
from skillbus.gateway.service.knowledge.parameters import ActorInHeader, KnowledgeWanted, ParentBody, acting

ProjectInPath = Annotated[Project, Path()]


log = structlog.get_logger(__name__)


class KnowledgeLines(StreamingResponse):
    """Items, a JSON object a line, to be saved."""

    media_type = exporter.MEDIA_TYPE

    async def stream_response(self, send: Send) -> None:
        """Send them; where they cannot be read further, leave the body without its end, and the server hangs up."""
        try:
            await super().stream_response(send)
        except RequestError as error:
            log.warning("knowledge_export_broke_off", code=error.code, reason=error.message)


@dataclass(frozen=True, slots=True)
class KnowledgeBaseRoutes:
    """The handlers, over what they need."""

    caller: BusCaller
    importer: KnowledgeImporter
    exporter: KnowledgeExporter

    async def search_knowledge(self, body: SearchKnowledge) -> KnowledgeFound:
        """Find the knowledge that fits a query, in any language, for a scope. When nothing fits, nothing comes back.

        With `explain` it tells what each stage did, and what moved each hit: to see why something is found, or not.
        """
        return await self.caller.call(SEARCH_KNOWLEDGE, body)

    async def build_context(self, body: BuildContext) -> ContextBuilt:
        """Write what fits a query as a context for a model: as text, and item by item; never above its budget."""
        return await self.caller.call(BUILD_CONTEXT, body)

    async def review_knowledge(self, body: ReviewKnowledge, actor: ActorInHeader = None) -> KnowledgeReviewed:
        """Approve or reject pending items, up to 256 at once. Each has its own result: see `results`."""
        asked = body.model_copy(update={"actor": acting(actor, body)})
        return await self.caller.call(REVIEW_KNOWLEDGE, asked)

    async def import_knowledge(
        self, request: Request, wishes: Annotated[KnowledgeWishes, Query()], actor: ActorInHeader = None
    ) -> KnowledgeImported:
        """Write items, new ones or known ones again: NDJSON, an item a line, or one JSON array of them.

        The body is read as it comes, up to 64 MiB of it and 200,000 lines. A line that is bad, or longer than 512 KiB,
        is told by its number, and the others are taken. `id` of a line is kept as its `external_id`, unless it is an
        item's own. What did not change is left as it is. With `dry_run` nothing is written, and each request of 200
        items is judged by itself.

        With `Content-Type: text/markdown` the body is one item with YAML front matter, up to 1 MiB.
        """
        is_markdown = request.headers.get("content-type", "").partition(";")[0].strip().lower() == MEDIA_TYPE
        take = self.importer.take_markdown if is_markdown else self.importer.take
        return await _whole(take(request.stream(), wishes, acting(actor)))

    async def export_knowledge(self, wanted: Annotated[KnowledgeWanted, Query()]) -> KnowledgeLines:
        """Whole items as NDJSON, as `/api/knowledge/import` takes them; active ones unless `status` says otherwise.

        The body comes a page at a time. Where it cannot go on it breaks off: one that ended properly is whole.
        """
        headers = {
            "Content-Disposition": 'attachment; filename="knowledge.jsonl"',
            "X-Content-Type-Options": "nosniff",
        }
        return KnowledgeLines(await self.exporter.open(wanted.request()), headers=headers)

    async def get_knowledge_stats(self, asked: Annotated[GetKnowledgeStats, Query()]) -> KnowledgeStats:
        """The knowledge base in numbers: what is used, never used, stale, and what was asked in vain."""
        return await self.caller.call(GET_KNOWLEDGE_STATS, asked)

    async def list_knowledge_audit(self, page: Annotated[ListKnowledgeAudit, Query()]) -> KnowledgeAuditListed:
        """Who did what, and when, oldest first. It only grows. `next` is the `after` of the next page."""
        return await self.caller.call(LIST_KNOWLEDGE_AUDIT, page)

    async def get_knowledge_project(self, project: ProjectInPath) -> KnowledgeProject:
        """The projects whose items a project inherits, nearest first."""
        return await self.caller.call(GET_KNOWLEDGE_PROJECT, GetKnowledgeProject(project=project))

    async def set_knowledge_parent(
        self, project: ProjectInPath, body: ParentBody, actor: ActorInHeader = None
    ) -> KnowledgeProject:
        """Let a project inherit the items of another; or, with null, of none."""
        asked = SetKnowledgeParent(project=project, parent=body.parent, actor=acting(actor))
        return await self.caller.call(SET_KNOWLEDGE_PARENT, asked)


async def _whole(taken: Awaitable[KnowledgeImported]) -> KnowledgeImported:
    try:
        return await taken
    except ClientDisconnect as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, "The body broke off.") from error


_EXAMPLE: Final = {"id": "faq-1", "type": "module_context", "title": "APISIX", "content": "An API gateway."}
_MARKDOWN: Final = (
    "---\nexternal_id: faq-1\ntype: module_context\ntitle: APISIX\ntags: [faq, en]\n---\n\nAn API gateway.\n"
)
_ITEMS: Final[dict[str, object]] = {
    "requestBody": {
        "required": True,
        "content": {
            exporter.MEDIA_TYPE: {
                "schema": {"type": "string", "description": "A `KnowledgeDraft` a line."},
                "example": f"{json.dumps(_EXAMPLE, ensure_ascii=False)}\n",
            },
            "application/json": {
                "schema": {"type": "array", "items": {"$ref": "#/components/schemas/KnowledgeDraft"}},
                "example": [_EXAMPLE],
            },
            MEDIA_TYPE: {
                "schema": {"type": "string", "description": "One item: YAML front matter, and its content."},
                "example": _MARKDOWN,
            },
        },
    }
}
"""As the handler reads the body itself, the documentation cannot know it."""
_EXPORTED: Final[Documented] = {
    200: {
        "content": {
            exporter.MEDIA_TYPE: {
                "schema": {"type": "string", "description": "A `KnowledgeItem` a line."},
            }
        }
    }
}


def add_knowledge_base_routes(to: DocumentedRouter, routes: KnowledgeBaseRoutes) -> None:
    """Put them under their paths."""
    found, built, reviewed = (
        SEARCH_KNOWLEDGE,
        BUILD_CONTEXT,
        REVIEW_KNOWLEDGE,
    )
    project, parent = f"{KNOWLEDGE}/projects/{{project}}", SET_KNOWLEDGE_PARENT
    put_errors, parent_errors = (*PUT_KNOWLEDGE.errors, *WITH_BODY), (*parent.errors, *WITH_BODY)
    for path, handler, endpoint in (
        ("search", routes.search_knowledge, found),
        ("context", routes.build_context, built),
        ("review", routes.review_knowledge, reviewed),
    ):
        to.add("POST", f"{KNOWLEDGE}/{path}", handler, (*endpoint.errors, *WITH_BODY), example=endpoint.example)
    to.add("POST", f"{KNOWLEDGE}/import", routes.import_knowledge, put_errors, body=_ITEMS)
    exported = EXPORT_KNOWLEDGE.errors
    to.saying(_EXPORTED).add("GET", f"{KNOWLEDGE}/export", routes.export_knowledge, exported, response=KnowledgeLines)
    to.add("GET", f"{KNOWLEDGE}/stats", routes.get_knowledge_stats, GET_KNOWLEDGE_STATS.errors)
    to.add("GET", f"{KNOWLEDGE}/audit", routes.list_knowledge_audit, LIST_KNOWLEDGE_AUDIT.errors)
    to.add("GET", project, routes.get_knowledge_project, GET_KNOWLEDGE_PROJECT.errors)
    to.add("PUT", project, routes.set_knowledge_parent, parent_errors, example={"parent": "default"})
