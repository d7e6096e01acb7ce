"""How routes are added with what the documentation cannot derive from their handlers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from fastapi import APIRouter, Response
from starlette.responses import JSONResponse

from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode
from skillbus.gateway.domain.problem import MEDIA_TYPE

Errors = tuple[ErrorCode, ...]
Documented = dict[int | str, dict[str, object]]
NO_ERRORS: Final[Errors] = ()
WITH_BODY: Final[Errors] = (ErrorCode.PAYLOAD_TOO_LARGE,)


@dataclass(frozen=True, slots=True)
class DocumentedRouter:
    """Adds routes under their paths, with the errors that each can answer."""

    router: APIRouter
    also: Documented = field(default_factory=dict)
    """What is said of answers beside what is derived: their headers, other forms of them, other statuses."""

    def saying(self, also: Documented) -> "DocumentedRouter":
        """One that says this of the answers."""
        return replace(self, also=also)

    def add(
        self,
        method: str,
        path: str,
        handler: Callable[..., object],
        errors: Errors,
        *,
        status: int = 200,
        response: type[Response] = JSONResponse,
        example: Mapping[str, object] | None = None,
        body: dict[str, object] | None = None,
    ) -> None:
        """Add a route; `example` is a body that it takes, `body` what is said of one that its handler reads itself."""
        self.router.add_api_route(
            path,
            handler,
            methods=[method],
            status_code=status,
            response_class=response,
            responses={**problems(errors), **self.also},
            operation_id=handler.__name__,
            openapi_extra=body if example is None else body_example(example),
        )

    def add_probe(self, path: str, handler: Callable[..., object], also: Documented) -> None:
        """Add a probe, for those that ask with HEAD too."""
        self.router.add_api_route(path, handler, methods=["GET"], responses=also, operation_id=handler.__name__)
        self.router.add_api_route(path, handler, methods=["HEAD"], include_in_schema=False)


def body_example(example: Mapping[str, object]) -> dict[str, object]:
    """What of an operation shows a body."""
    return {"requestBody": {"content": {"application/json": {"example": dict(example)}}}}


def problems(errors: Errors) -> Documented:
    """How the documentation lists the errors of a route: by status, with the codes that have it."""
    return documented_errors(errors, MEDIA_TYPE, "Problem")


def documented_errors(errors: Errors, media_type: str, schema: str) -> Documented:
    """The same for errors of another form, by the name of its schema."""
    content = {media_type: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    codes = sorted({*errors, ErrorCode.UNAUTHORIZED, ErrorCode.FORBIDDEN}, key=lambda code: ERROR_CLASSES[code].status)
    documented: Documented = {}
    for status, of_status in groupby(codes, key=lambda code: ERROR_CLASSES[code].status):
        said = ", ".join(f"`{code}`: {ERROR_CLASSES[code].title}" for code in of_status)
        documented[status] = {"description": said, "content": content}
    documented["default"] = {"description": "Any other error has this form too.", "content": content}
    return documented
