"""Routes with the parts of their documentation that FastAPI cannot derive from the handlers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from inspect import get_annotations
from itertools import groupby
from typing import Annotated, Final, get_args

from fastapi import APIRouter, Path, Query, Response, params
from starlette.responses import JSONResponse

from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.message import Message, PlainText, Project, SkillName, describe_fields
from skillbus.gateway.domain.access.route_rule import RouteRule
from skillbus.gateway.domain.problem import MEDIA_TYPE

SkillInPath = Annotated[SkillName, Path(description="Name of the skill.")]
ProjectInQuery = Annotated[Project, Query()]
ModelInPath = Annotated[
    PlainText, Path(min_length=1, max_length=300, description="Id of the model, its name, or `provider/name`.")
]


Errors = tuple[ErrorCode, ...]
Documented = dict[int | str, dict[str, object]]
_EVERY_ROUTE: Final[Errors] = (ErrorCode.UNAUTHORIZED, ErrorCode.FORBIDDEN)
_EVERY_BODY: Final[Errors] = (ErrorCode.PAYLOAD_TOO_LARGE,)


def make_json_response(reply: Message | bytes) -> Response:
    """Return a reply as JSON: a message, or what a service has written already."""
    content = reply if isinstance(reply, bytes) else reply.model_dump_json()
    return Response(content, media_type="application/json")


def _list_query_models(handler: Callable[..., object]) -> Iterator[type[Message]]:
    """Yield the classes that FastAPI reads from the parameters of the URL, with the descriptions of their fields."""
    for annotation in get_annotations(handler).values():
        kind, *others = get_args(annotation) or (annotation,)
        if isinstance(kind, type) and issubclass(kind, Message) and any(isinstance(it, params.Query) for it in others):
            yield kind


@dataclass(frozen=True, slots=True)
class DocumentedRouter:
    """Adds routes with their tag and the errors that each can return."""

    router: APIRouter
    tag: str
    error_form: tuple[str, str] = (MEDIA_TYPE, "Problem")
    """Media type and schema of error replies."""
    needs_all_projects: bool = False
    """True if its routes concern the whole system."""
    counts_runs: bool = False
    """True if requests to its routes count as runs of their key."""
    counts_streams: bool = False
    """True if requests to its routes follow work that goes on, and count as streams of their key."""
    counts_suggestions: bool = False
    """True if requests to its routes count as suggestions of their key."""
    replies: Documented = field(default_factory=dict)
    """Documentation of replies that FastAPI does not derive: headers, other media types, other statuses."""

    def with_replies(self, replies: Documented) -> "DocumentedRouter":
        """Return a router that documents these replies."""
        return replace(self, replies=replies)

    def for_system(self) -> "DocumentedRouter":
        """Return a router for what concerns the whole system. Its routes refuse keys of single projects."""
        return replace(self, needs_all_projects=True)

    def for_runs(self) -> "DocumentedRouter":
        """Return a router for runs, of which each key may have only some at once."""
        return replace(self, counts_runs=True)

    def for_streams(self) -> "DocumentedRouter":
        """Return a router for streams that follow work, of which each key may have only some at once."""
        return replace(self, counts_streams=True)

    def for_suggestions(self) -> "DocumentedRouter":
        """Return a router for suggestions, of which each key may make only some in an hour."""
        return replace(self, counts_suggestions=True)

    def add(  # noqa: PLR0913 (the parts of a route that FastAPI does not derive)
        self,
        method: str,
        path: str,
        role: Role,
        handler: Callable[..., object],
        errors: Errors = (),
        *,
        status: int = 200,
        response: type[Response] = JSONResponse,
        example: Mapping[str, object] | None = None,
        body: dict[str, object] | None = None,
        reply: type[Message] | None = None,
    ) -> None:
        """Add a route for callers with a role.

        `example` is a valid body; `body` documents a body that the handler reads itself.
        """
        for kind in _list_query_models(handler):
            describe_fields(kind)
        rule = RouteRule(
            role,
            needs_all_projects=self.needs_all_projects,
            is_run=self.counts_runs,
            is_suggestion=self.counts_suggestions,
            is_stream=self.counts_streams,
        )
        body_errors = _EVERY_BODY if method in {"POST", "PUT", "PATCH"} else ()
        if example is not None:
            body = {"requestBody": {"content": {"application/json": {"example": dict(example)}}}}
        # A handler that returns JSON itself has its reply documented here, and FastAPI does not build it again.
        written: Documented = {} if reply is None else {status: {"model": reply}}
        self.router.add_api_route(
            path,
            handler,
            methods=[method],
            status_code=status,
            response_class=response,
            responses={**self._document_errors((*errors, *body_errors)), **self.replies, **written},
            operation_id=handler.__name__,
            openapi_extra={**(body or {}), **rule.to_openapi()},
            tags=[self.tag],
        )

    def add_probe(self, path: str, handler: Callable[..., object], replies: Documented) -> None:
        """Add a probe, which needs no key and is answered for HEAD too."""
        rule = RouteRule(None).to_openapi()
        self.router.add_api_route(
            path,
            handler,
            methods=["GET"],
            responses=replies,
            operation_id=handler.__name__,
            openapi_extra=rule,
            tags=[self.tag],
        )
        self.router.add_api_route(path, handler, methods=["HEAD"], openapi_extra=rule, include_in_schema=False)

    def _document_errors(self, errors: Errors) -> Documented:
        """Return the documentation of error replies: one entry for each status, with its codes."""
        media_type, schema = self.error_form
        content = {media_type: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
        codes = sorted(dict.fromkeys((*errors, *_EVERY_ROUTE)), key=lambda code: ERROR_CLASSES[code].status)
        documented: Documented = {}
        for status, group in groupby(codes, key=lambda code: ERROR_CLASSES[code].status):
            description = ", ".join(f"`{code}`: {ERROR_CLASSES[code].title}" for code in group)
            documented[status] = {"description": description, "content": content}
        documented["default"] = {"description": "Every other error has this form too.", "content": content}
        return documented
