"""Items of knowledge: their life, their versions, and what people say of them."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Header, Query, Response

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
    KnowledgeChanges,
    KnowledgeListed,
    KnowledgeWritten,
    RestoreKnowledge,
    UpdateKnowledge,
)
from skillbus.contracts.learner.knowledge import KnowledgeItem, VersionNumber
from skillbus.contracts.learner.usage import (
    GET_KNOWLEDGE_USAGE,
    GIVE_FEEDBACK,
    GetKnowledgeUsage,
    GiveFeedback,
    ItemUsage,
)
from skillbus.contracts.learner.versions import (
    DIFF_KNOWLEDGE,
    GET_KNOWLEDGE_HISTORY,
    DiffKnowledge,
    KnowledgeDiffed,
    KnowledgeVersionsListed,
    ListKnowledgeVersions,
)
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.gateway.domain.accept import prefers
from skillbus.gateway.domain.etags import etag, expected_version, is_known
from skillbus.gateway.domain.knowledge.markdown import MEDIA_TYPE, to_markdown
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import WITH_BODY, Documented, DocumentedRouter
from skillbus.gateway.service.knowledge.parameters import (
    EXAMPLE_ID,
    ActorInHeader,
    FeedbackBody,
    IfMatch,
    IfNoneMatch,
    ItemInPath,
    ItemWanted,
    KeyInHeader,
    KnowledgePage,
    ProjectInQuery,
    RestoreBody,
    WhyInQuery,
    acting,
)

KNOWLEDGE: Final = "/api/knowledge"
_ITEM: Final = f"{KNOWLEDGE}/{{id}}"
_JSON: Final = "application/json"
_CLEARED_BY_NULL: Final = ("valid_from", "valid_to", "external_id")


@dataclass(frozen=True, slots=True)
class KnowledgeRoutes:
    """The handlers, over what they need."""

    caller: BusCaller

    async def list_knowledge(self, page: Annotated[KnowledgePage, Query()]) -> KnowledgeListed:
        """A page of items, newest change first; active ones unless `status` says otherwise.

        `next` is the `after` of the next page. `type`, `status`, `tags` and `all_tags` may be repeated.
        """
        return await self.caller.call(LIST_KNOWLEDGE, page.request())

    async def create_knowledge(
        self,
        body: CreateKnowledge,
        response: Response,
        actor: ActorInHeader = None,
        idempotency_key: KeyInHeader = None,
    ) -> KnowledgeWritten:
        """Write a new item; search finds it from the answer on.

        The content is Markdown. It is kept as it is and never rendered here: whoever shows it sanitises it.
        """
        key = idempotency_key or body.idempotency_key
        asked = body.model_copy(update={"actor": acting(actor, body), "idempotency_key": key})
        written = await self.caller.call(CREATE_KNOWLEDGE, asked)
        response.headers["Location"] = f"{KNOWLEDGE}/{written.item.id}"
        return _tagged(written, response)

    async def get_knowledge(
        self,
        item_id: ItemInPath,
        wanted: Annotated[ItemWanted, Query()],
        accept: Annotated[str, Header(include_in_schema=False)] = "",
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """One item, as it is, at a version, or as it was at a time.

        With `Accept: text/markdown` it comes as Markdown with YAML front matter, as `POST /api/knowledge/import` takes
        it. The content is kept as it is and never rendered here: whoever shows it sanitises it.
        """
        asked = GetKnowledge(id=item_id, project=wanted.project, version=wanted.version, as_of=wanted.as_of)
        item = await self.caller.call(GET_KNOWLEDGE, asked)
        headers = {"ETag": etag(item.version), "Vary": "Accept", "X-Content-Type-Options": "nosniff"}
        if is_known(if_none_match, item.version):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        if prefers(accept, MEDIA_TYPE, _JSON):
            return Response(to_markdown(item), headers=headers, media_type=MEDIA_TYPE)
        return Response(item.model_dump_json(), headers=headers, media_type=_JSON)

    async def update_knowledge(
        self,
        item_id: ItemInPath,
        body: KnowledgeChanges,
        response: Response,
        project: ProjectInQuery = DEFAULT_PROJECT,
        actor: ActorInHeader = None,
        if_match: IfMatch = None,
    ) -> KnowledgeWritten:
        """Change an item: a new version, and the one before goes into the history.

        What is absent stays as it is; so does what is null, but for `valid_from`, `valid_to` and `external_id`, which
        null empties. `status` changes by DELETE, `/restore` and `/api/knowledge/review`.
        """
        said = body.model_dump(exclude_unset=True)
        changes = UpdateKnowledge(
            id=item_id,
            project=project,
            expected_version=expected_version(if_match),
            actor=acting(actor),
            clear=tuple(name for name in _CLEARED_BY_NULL if name in said and said[name] is None),
            **said,
        )
        return _tagged(await self.caller.call(UPDATE_KNOWLEDGE, changes), response)

    async def archive_knowledge(
        self,
        item_id: ItemInPath,
        project: ProjectInQuery = DEFAULT_PROJECT,
        reason: WhyInQuery = "",
        actor: ActorInHeader = None,
        if_match: IfMatch = None,
    ) -> None:
        """Put an item into the archive: it is kept with its history, and never found again, until it is restored."""
        asked = ArchiveKnowledge(
            id=item_id,
            project=project,
            expected_version=expected_version(if_match),
            actor=acting(actor),
            reason=reason,
        )
        await self.caller.call(ARCHIVE_KNOWLEDGE, asked)

    async def restore_knowledge(
        self,
        item_id: ItemInPath,
        response: Response,
        body: RestoreBody | None = None,
        project: ProjectInQuery = DEFAULT_PROJECT,
        actor: ActorInHeader = None,
        if_match: IfMatch = None,
    ) -> KnowledgeWritten:
        """Take an item out of the archive; or, with `version`, make it again as it was then, as a new version."""
        wanted = body or RestoreBody()
        asked = RestoreKnowledge(
            id=item_id,
            project=project,
            version=wanted.version,
            expected_version=expected_version(if_match),
            actor=acting(actor),
            reason=wanted.reason,
        )
        return _tagged(await self.caller.call(RESTORE_KNOWLEDGE, asked), response)

    async def get_knowledge_history(
        self,
        item_id: ItemInPath,
        project: ProjectInQuery = DEFAULT_PROJECT,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        before: Annotated[VersionNumber | None, Query(ge=2, description="`next` of the page before.")] = None,
    ) -> KnowledgeVersionsListed:
        """Every version of an item, whole, with who made it, when, how and why; the newest first."""
        asked = ListKnowledgeVersions(project=project, id=item_id, limit=limit, before=before)
        return await self.caller.call(GET_KNOWLEDGE_HISTORY, asked)

    async def diff_knowledge(
        self,
        item_id: ItemInPath,
        from_version: Annotated[VersionNumber, Query(alias="from")],
        to_version: Annotated[VersionNumber, Query(alias="to")],
        project: ProjectInQuery = DEFAULT_PROJECT,
    ) -> KnowledgeDiffed:
        """What differs between two versions of an item: field by field, and in its texts word by word."""
        asked = DiffKnowledge(project=project, id=item_id, from_version=from_version, to_version=to_version)
        return await self.caller.call(DIFF_KNOWLEDGE, asked)

    async def give_feedback(
        self,
        item_id: ItemInPath,
        body: FeedbackBody,
        project: ProjectInQuery = DEFAULT_PROJECT,
        actor: ActorInHeader = None,
    ) -> ItemUsage:
        """Say whether an item helped with a query. The last word of each actor about each query counts."""
        asked = GiveFeedback(project=project, id=item_id, actor=acting(actor), **body.model_dump(exclude_unset=True))
        return await self.caller.call(GIVE_FEEDBACK, asked)

    async def get_knowledge_usage(self, item_id: ItemInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> ItemUsage:
        """How an item is used, and what people say of it."""
        asked = GetKnowledgeUsage(project=project, id=item_id)
        return await self.caller.call(GET_KNOWLEDGE_USAGE, asked)


def _tagged(written: KnowledgeWritten, response: Response) -> KnowledgeWritten:
    response.headers["ETag"] = etag(written.item.version)
    return written


_TAG: Final[dict[str, object]] = {
    "ETag": {
        "description": 'The version, as `"3"`: for If-Match and If-None-Match.',
        "schema": {"type": "string"},
        "example": '"3"',
    }
}
_LOCATION: Final[dict[str, object]] = {
    "Location": {
        "description": "The path of what was made.",
        "schema": {"type": "string"},
        "example": f"{KNOWLEDGE}/{EXAMPLE_ID}",
    }
}
_TAGGED: Final[Documented] = {200: {"headers": _TAG}}
_CREATED: Final[Documented] = {201: {"headers": {**_LOCATION, **_TAG}}}
_READ: Final[Documented] = {
    200: {
        "model": KnowledgeItem,
        "headers": _TAG,
        "content": {
            MEDIA_TYPE: {
                "schema": {"type": "string"},
                "example": f"---\nid: {EXAMPLE_ID}\ntype: business_rule\ntitle: game-id\n---\n\nSend `game-id`.\n",
            }
        },
    },
    304: {"description": "It is still the version that If-None-Match names.", "headers": _TAG},
}
_CHANGES: Final[dict[str, object]] = {name: value for name, value in UPDATE_KNOWLEDGE.example.items() if name != "id"}
_FEEDBACK: Final[dict[str, object]] = {name: value for name, value in GIVE_FEEDBACK.example.items() if name != "id"}


def add_knowledge_routes(to: DocumentedRouter, routes: KnowledgeRoutes) -> None:
    """Put them under their paths: behind those of the whole base, whose names stand where ids do."""
    created, read, changed = (
        CREATE_KNOWLEDGE,
        GET_KNOWLEDGE,
        UPDATE_KNOWLEDGE,
    )
    archived, restored, voiced = (
        ARCHIVE_KNOWLEDGE,
        RESTORE_KNOWLEDGE,
        GIVE_FEEDBACK,
    )
    create_errors, change_errors = (*created.errors, *WITH_BODY), (*changed.errors, *WITH_BODY)
    restore_errors, voice_errors = (*restored.errors, *WITH_BODY), (*voiced.errors, *WITH_BODY)
    to.add("GET", KNOWLEDGE, routes.list_knowledge, LIST_KNOWLEDGE.errors)
    to.saying(_CREATED).add(
        "POST", KNOWLEDGE, routes.create_knowledge, create_errors, status=201, example=created.example
    )
    to.saying(_READ).add("GET", _ITEM, routes.get_knowledge, read.errors)
    to.saying(_TAGGED).add("PUT", _ITEM, routes.update_knowledge, change_errors, example=_CHANGES)
    to.add("DELETE", _ITEM, routes.archive_knowledge, archived.errors, status=204)
    to.add("GET", f"{_ITEM}/history", routes.get_knowledge_history, GET_KNOWLEDGE_HISTORY.errors)
    to.add("GET", f"{_ITEM}/diff", routes.diff_knowledge, DIFF_KNOWLEDGE.errors)
    restore: dict[str, object] = {"version": 1}
    to.saying(_TAGGED).add("POST", f"{_ITEM}/restore", routes.restore_knowledge, restore_errors, example=restore)
    to.add("POST", f"{_ITEM}/feedback", routes.give_feedback, voice_errors, example=_FEEDBACK)
    to.add("GET", f"{_ITEM}/usage", routes.get_knowledge_usage, GET_KNOWLEDGE_USAGE.errors)
