"""Knowledge items: writing, reading, versions and feedback."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Header, Query, Request, Response

from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.http import SuggestKnowledge
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
from skillbus.contracts.learner.knowledge import EXAMPLE_ID, SUGGESTED, KnowledgeItem, KnowledgeStatus, VersionNumber
from skillbus.contracts.learner.proposals import GET_PROPOSAL, GetProposal, WaitingProposal
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
from skillbus.gateway.domain.access.principal import get_caller
from skillbus.gateway.domain.http_headers import is_known_version, make_etag, parse_if_match, prefers_media_type
from skillbus.gateway.domain.knowledge_markdown import MEDIA_TYPE, format_markdown
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import Documented, DocumentedRouter, ProjectInQuery
from skillbus.gateway.service.knowledge.parameters import (
    ActorInHeader,
    FeedbackBody,
    IfMatch,
    IfNoneMatch,
    ItemChangesBody,
    ItemInPath,
    KeyInHeader,
    KnowledgeItemQuery,
    KnowledgePageQuery,
    ReasonInQuery,
    RestoreBody,
    choose_actor,
)

KNOWLEDGE: Final = "/api/knowledge"
_ITEM: Final = f"{KNOWLEDGE}/{{id}}"
_JSON: Final = "application/json"
_CLEARED_BY_NULL: Final = ("valid_from", "valid_to", "external_id")


@dataclass(frozen=True, slots=True)
class KnowledgeRoutes:
    """Handlers of knowledge items."""

    caller: BusCaller

    async def list_knowledge(self, page: Annotated[KnowledgePageQuery, Query()]) -> KnowledgeListed:
        """List one page of items, latest change first. Without `status`, only active items are listed.

        `next` is the `after` of the next page, and `previous` the `before` of the one in front.
        `type`, `status`, `tags` and `all_tags` may be repeated.
        """
        return await self.caller.call(LIST_KNOWLEDGE, page.to_request())

    async def create_knowledge(
        self,
        body: CreateKnowledge,
        response: Response,
        actor: ActorInHeader = None,
        idempotency_key: KeyInHeader = None,
    ) -> KnowledgeWritten:
        """Create an item. The reply waits up to two seconds for the index; `indexed` is true if searches find the item.

        The content is Markdown, stored unchanged and never rendered here. Programs that display it must sanitize it.
        """
        key = idempotency_key or body.idempotency_key
        asked = body.model_copy(update={"actor": choose_actor(actor, body), "idempotency_key": key})
        return _located(await self.caller.call(CREATE_KNOWLEDGE, asked), response)

    async def suggest_knowledge(
        self,
        body: SuggestKnowledge,
        request: Request,
        response: Response,
        actor: ActorInHeader = None,
        idempotency_key: KeyInHeader = None,
    ) -> KnowledgeWritten:
        """Suggest an item. It is pending, and searches do not find it, until an editor has approved it.

        Its `source` is `suggestion`, and its `source_ref` names the API key. A key may make only some in an hour.
        """
        asked = CreateKnowledge(
            **body.model_dump(exclude_unset=True, exclude={"actor", "idempotency_key"}),
            status=KnowledgeStatus.PENDING,
            source=SUGGESTED,
            source_ref=f"key:{get_caller(request.scope).name}",
            actor=choose_actor(actor, body),
            idempotency_key=idempotency_key or body.idempotency_key,
        )
        return _located(await self.caller.call(CREATE_KNOWLEDGE, asked), response)

    async def get_knowledge(
        self,
        item_id: ItemInPath,
        wanted: Annotated[KnowledgeItemQuery, Query()],
        accept: Annotated[str, Header(include_in_schema=False)] = "",
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """Return one item: its current version, a given version, or the version of a given time.

        With `Accept: text/markdown` the reply is Markdown with YAML front matter, which `POST /api/knowledge/import`
        accepts. The content is stored unchanged and never rendered here. Programs that display it must sanitize it.
        """
        asked = GetKnowledge(id=item_id, project=wanted.project, version=wanted.version, as_of=wanted.as_of)
        item = await self.caller.call(GET_KNOWLEDGE, asked)
        headers = {"ETag": make_etag(item.version), "Vary": "Accept"}
        if is_known_version(if_none_match, item.version):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        if prefers_media_type(accept, MEDIA_TYPE, _JSON):
            return Response(format_markdown(item), headers=headers, media_type=MEDIA_TYPE)
        return Response(item.model_dump_json(), headers=headers, media_type=_JSON)

    async def update_knowledge(
        self,
        item_id: ItemInPath,
        body: ItemChangesBody,
        response: Response,
        project: ProjectInQuery = DEFAULT_PROJECT,
        actor: ActorInHeader = None,
        if_match: IfMatch = None,
    ) -> KnowledgeWritten:
        """Change an item. The change makes a new version; the previous one stays in the history.

        Absent and null fields stay as they are, except that null clears `valid_from`, `valid_to` and `external_id`.
        To change the status, use DELETE, `/restore` or `/api/knowledge/review`.
        """
        said = body.model_dump(exclude_unset=True, include=set(KnowledgeChanges.model_fields))
        changes = UpdateKnowledge(
            id=item_id,
            project=project,
            expected_version=parse_if_match(if_match),
            actor=choose_actor(actor),
            clear=tuple(name for name in _CLEARED_BY_NULL if name in said and said[name] is None),
            **said,
        )
        return _tagged(await self.caller.call(UPDATE_KNOWLEDGE, changes), response)

    async def archive_knowledge(
        self,
        item_id: ItemInPath,
        project: ProjectInQuery = DEFAULT_PROJECT,
        reason: ReasonInQuery = "",
        actor: ActorInHeader = None,
        if_match: IfMatch = None,
    ) -> None:
        """Archive an item: it is kept with its history, but searches no longer find it until it is restored."""
        asked = ArchiveKnowledge(
            id=item_id,
            project=project,
            expected_version=parse_if_match(if_match),
            actor=choose_actor(actor),
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
        """Restore an item from the archive, or restore an earlier version as a new version."""
        wanted = body or RestoreBody()
        asked = RestoreKnowledge(
            id=item_id,
            project=project,
            version=wanted.version,
            expected_version=parse_if_match(if_match),
            actor=choose_actor(actor),
            reason=wanted.reason,
        )
        return _tagged(await self.caller.call(RESTORE_KNOWLEDGE, asked), response)

    async def get_proposal(self, item_id: ItemInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> WaitingProposal:
        """Return the evidence and the proposal of a learned item, also after its review."""
        return await self.caller.call(GET_PROPOSAL, GetProposal(id=item_id, project=project))

    async def get_knowledge_history(
        self,
        item_id: ItemInPath,
        project: ProjectInQuery = DEFAULT_PROJECT,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        before: Annotated[VersionNumber | None, Query(ge=2, description="`next` of the previous page.")] = None,
    ) -> KnowledgeVersionsListed:
        """List the versions of an item in full, newest first, with actor, time, kind and reason of each change."""
        asked = ListKnowledgeVersions(project=project, id=item_id, limit=limit, before=before)
        return await self.caller.call(GET_KNOWLEDGE_HISTORY, asked)

    async def diff_knowledge(
        self,
        item_id: ItemInPath,
        from_version: Annotated[VersionNumber, Query(alias="from")],
        to_version: Annotated[VersionNumber, Query(alias="to")],
        project: ProjectInQuery = DEFAULT_PROJECT,
    ) -> KnowledgeDiffed:
        """Compare two versions of an item field by field, and texts word by word."""
        asked = DiffKnowledge(project=project, id=item_id, from_version=from_version, to_version=to_version)
        return await self.caller.call(DIFF_KNOWLEDGE, asked)

    async def give_feedback(
        self,
        item_id: ItemInPath,
        body: FeedbackBody,
        project: ProjectInQuery = DEFAULT_PROJECT,
        actor: ActorInHeader = None,
    ) -> ItemUsage:
        """Record whether an item helped with a query. The latest feedback of each actor for each query counts."""
        asked = GiveFeedback(
            project=project, id=item_id, actor=choose_actor(actor), **body.model_dump(exclude_unset=True)
        )
        return await self.caller.call(GIVE_FEEDBACK, asked)

    async def get_knowledge_usage(self, item_id: ItemInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> ItemUsage:
        """Return how often an item was used, and its feedback."""
        asked = GetKnowledgeUsage(project=project, id=item_id)
        return await self.caller.call(GET_KNOWLEDGE_USAGE, asked)


def _located(written: KnowledgeWritten, response: Response) -> KnowledgeWritten:
    response.headers["Location"] = f"{KNOWLEDGE}/{written.item.id}"
    return _tagged(written, response)


def _tagged(written: KnowledgeWritten, response: Response) -> KnowledgeWritten:
    response.headers["ETag"] = make_etag(written.item.version)
    return written


_TAG: Final[dict[str, object]] = {
    "ETag": {
        "description": 'Version of the item, such as `"3"`, for If-Match and If-None-Match.',
        "schema": {"type": "string"},
        "example": '"3"',
    }
}
_LOCATION: Final[dict[str, object]] = {
    "Location": {
        "description": "Path of the new item.",
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
    304: {"description": "The item still has the version of If-None-Match.", "headers": _TAG},
}
_CHANGES: Final[dict[str, object]] = {name: value for name, value in UPDATE_KNOWLEDGE.example.items() if name != "id"}
_FEEDBACK: Final[dict[str, object]] = {name: value for name, value in GIVE_FEEDBACK.example.items() if name != "id"}

_SUGGESTION: Final[dict[str, object]] = {**CREATE_KNOWLEDGE.example, "reason": "Asked twice this week."}


def add_knowledge_routes(router: DocumentedRouter, routes: KnowledgeRoutes) -> None:
    """Add the routes of items, after the routes of the whole base: their paths could be ids of items."""
    created, read, written = router.with_replies(_CREATED), router.with_replies(_READ), router.with_replies(_TAGGED)
    example = CREATE_KNOWLEDGE.example
    router.add("GET", KNOWLEDGE, Role.READER, routes.list_knowledge, LIST_KNOWLEDGE.errors)
    created.add(
        "POST", KNOWLEDGE, Role.EDITOR, routes.create_knowledge, CREATE_KNOWLEDGE.errors, status=201, example=example
    )
    created.for_suggestions().add(
        "POST",
        f"{KNOWLEDGE}/suggest",
        Role.RUNNER,
        routes.suggest_knowledge,
        (*CREATE_KNOWLEDGE.errors, ErrorCode.OVERLOADED),
        status=201,
        example=_SUGGESTION,
    )
    read.add("GET", _ITEM, Role.READER, routes.get_knowledge, GET_KNOWLEDGE.errors)
    written.add("PUT", _ITEM, Role.EDITOR, routes.update_knowledge, UPDATE_KNOWLEDGE.errors, example=_CHANGES)
    router.add("DELETE", _ITEM, Role.EDITOR, routes.archive_knowledge, ARCHIVE_KNOWLEDGE.errors, status=204)
    router.add("GET", f"{_ITEM}/proposal", Role.READER, routes.get_proposal, GET_PROPOSAL.errors)
    router.add("GET", f"{_ITEM}/history", Role.READER, routes.get_knowledge_history, GET_KNOWLEDGE_HISTORY.errors)
    router.add("GET", f"{_ITEM}/diff", Role.READER, routes.diff_knowledge, DIFF_KNOWLEDGE.errors)
    restore: dict[str, object] = {"version": 1}
    written.add(
        "POST", f"{_ITEM}/restore", Role.EDITOR, routes.restore_knowledge, RESTORE_KNOWLEDGE.errors, example=restore
    )
    router.add("POST", f"{_ITEM}/feedback", Role.RUNNER, routes.give_feedback, GIVE_FEEDBACK.errors, example=_FEEDBACK)
    router.add("GET", f"{_ITEM}/usage", Role.READER, routes.get_knowledge_usage, GET_KNOWLEDGE_USAGE.errors)
