"""Error replies: problem documents, or OpenAI's form below `/v1`."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import JsonValue
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import Problem
from skillbus.contracts.validation import describe_error
from skillbus.gateway.adapters.strict_body import InvalidBodyError
from skillbus.gateway.domain.openai import OPENAI_PREFIX, convert_problem
from skillbus.gateway.domain.problem import MEDIA_TYPE, make_http_problem, make_problem

_RETRY_AFTER_S: Final = {429: "1", 503: "2"}
"""Seconds to wait before the next attempt."""
_DETAILS: Final = {
    404: "There is nothing at this path: /docs lists the paths.",
    405: "This path does not support this method: the header Allow lists the supported ones.",
}

_RESPONSES: Final = f"{OPENAI_PREFIX}responses"
_NO_RESPONSES: Final = (
    "skillbus has no Responses API: send chats to /v1/chat/completions; in OpenAI's agents SDK call "
    'set_default_openai_api("chat_completions").'
)


def make_problem_response(problem: Problem) -> Response:
    """Return the reply for a problem, in the form of its path and with the headers of its status."""
    if problem.instance.startswith(OPENAI_PREFIX):
        body, media_type = convert_problem(problem).model_dump_json(), "application/json"
        # OpenAI's clients follow this header; without it they retry after every 5xx.
        headers = {"x-should-retry": "true" if problem.retryable else "false"}
    else:
        body, media_type, headers = problem.model_dump_json(), MEDIA_TYPE, {}
    response = Response(body, problem.status, headers, media_type)
    if (wait_s := _RETRY_AFTER_S.get(problem.status)) is not None:
        response.headers["Retry-After"] = str(problem.details.get("retry_after_s", wait_s))
    if problem.code is ErrorCode.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="skillbus"'
    return response


ShowProblem = Callable[[Scope, Problem], Response]
"""Makes the reply for a problem: a page for a browser that asks for a page, else a problem document."""


class BodyRefusedError(HTTPException):
    """Refusal of a body. An HTTPException, because FastAPI passes these on while it reads a body."""

    def __init__(self, error: RequestError) -> None:
        super().__init__(error.status, error.message)
        self.error = error


def add_error_handlers(
    app: FastAPI,
    router: APIRouter,
    record_refusal: Callable[[Scope, RequestError], Awaitable[None]],
    show_problem: ShowProblem,
) -> None:
    """Make the app reply to errors by `show_problem`. `router` holds its routes.

    `record_refusal` gets the ASGI scope of each refused request before its reply.
    """

    @app.exception_handler(RequestError)
    async def reply_to_request_error(request: Request, error: RequestError) -> Response:
        await record_refusal(request.scope, error)
        return show_problem(request.scope, make_problem(error, request.url.path))

    @app.exception_handler(BodyRefusedError)
    async def reply_to_refused_body(request: Request, refused: BodyRefusedError) -> Response:
        return await reply_to_request_error(request, refused.error)

    @app.exception_handler(HTTPException)
    async def reply_to_http_error(request: Request, error: HTTPException) -> Response:
        path = request.url.path
        detail = _DETAILS.get(error.status_code, error.detail)
        if error.status_code == HTTPStatus.NOT_FOUND and path.startswith(_RESPONSES):
            detail = _NO_RESPONSES
        response = show_problem(request.scope, make_http_problem(error.status_code, detail, path))
        response.headers.update(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            # All routes of the path; Starlette lists only the methods of the first one.
            routes = [route for route in router.routes if isinstance(route, Route)]
            template = next((route.path for route in routes if route.path_regex.match(path)), None)
            if methods := {method for route in routes if route.path == template for method in route.methods or ()}:
                response.headers["Allow"] = ", ".join(sorted(methods))
        return response

    @app.exception_handler(Exception)
    async def reply_to_unexpected_error(request: Request, _: Exception) -> Response:
        """Reply without the text of the error, which may contain anything. `boundary` logs it."""
        return show_problem(request.scope, make_internal_problem(request.url.path))

    @app.exception_handler(InvalidBodyError)
    async def reply_to_invalid_body(request: Request, error: InvalidBodyError) -> Response:
        return await reply_to_invalid_request(request, RequestValidationError(error.errors))

    @app.exception_handler(RequestValidationError)
    async def reply_to_invalid_request(request: Request, error: RequestValidationError) -> Response:
        return show_problem(request.scope, _make_validation_problem(request, error))


def _make_validation_problem(request: Request, error: RequestValidationError) -> Problem:
    fields: list[JsonValue] = []
    described: list[str] = []
    for item in error.errors()[:50]:
        place, problem = [str(part) for part in item["loc"]], describe_error(item)
        fields.append({"field": ".".join(place[1:]) or place[0], "problem": problem, "in": place[0]})
        described.append(f"{'.'.join(place)}: {problem}")
    message = "; ".join(described[:5])
    if isinstance(error.body, bytes):
        # The body was not parsed as JSON. curl sends forms by default.
        message = f"{message}. Send it with the header `Content-Type: application/json`."
    invalid = RequestError(ErrorCode.INVALID_REQUEST, message, details={"fields": fields})
    return make_problem(invalid, request.url.path)


def make_internal_problem(path: str) -> Problem:
    """Return the document of an unexpected error."""
    return make_problem(RequestError(ErrorCode.INTERNAL, "The gateway failed; see its log."), path)
