"""Every error as a problem document, or as OpenAI writes it where its API is."""

from http import HTTPStatus
from typing import Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import JsonValue
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import Problem
from skillbus.gateway.domain.openai.errors import PREFIX, openai_error_of
from skillbus.gateway.domain.problem import MEDIA_TYPE, get_retry_after_s, http_problem, problem_of

_DETAILS: Final = {
    404: "There is nothing at this path: /docs shows what there is.",
    405: "This path is not asked with this method: the header Allow lists those that it takes.",
}


def problem_response(problem: Problem) -> Response:
    """The document in the form of its path, with the headers that its status asks for."""
    response = _document(problem)
    if (wait_s := get_retry_after_s(problem)) is not None:
        response.headers["Retry-After"] = str(wait_s)
    if problem.code is ErrorCode.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="skillbus"'
    return response


def _document(problem: Problem) -> Response:
    if not problem.instance.startswith(PREFIX):
        return Response(problem.model_dump_json(), problem.status, media_type=MEDIA_TYPE)
    # What OpenAI's clients go by, instead of sending again after every 5xx.
    headers = {"x-should-retry": "true" if problem.retryable else "false"}
    body = openai_error_of(problem).model_dump_json()
    return Response(body, problem.status, headers, media_type="application/json")


def answer_errors(app: FastAPI, router: APIRouter) -> None:
    """Have the app, whose routes are those of `router`, answer with problem documents."""

    async def http_error(request: Request, error: HTTPException) -> Response:
        response = await _http_error(request, error)
        if allowed := _allowed(router, request.url.path) if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED else "":
            response.headers["Allow"] = allowed
        return response

    app.exception_handler(RequestError)(_refused)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(http_error)
    app.exception_handler(Exception)(_failed)


async def _refused(request: Request, error: RequestError) -> Response:
    return problem_response(problem_of(error, request.url.path))


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    fields: list[JsonValue] = []
    for item in error.errors()[:50]:
        place = [str(part) for part in item["loc"]]
        fields.append({"field": ".".join(place[1:]) or place[0], "problem": item["msg"], "in": place[0]})
    said = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:5])
    if isinstance(error.body, bytes):
        # It was not read as JSON: what curl sends as a form unless it is told otherwise.
        said = f"{said}. Send it with the header `Content-Type: application/json`."
    invalid = RequestError(ErrorCode.INVALID_REQUEST, said, details={"fields": fields})
    return problem_response(problem_of(invalid, request.url.path))


async def _http_error(request: Request, error: HTTPException) -> Response:
    detail = _DETAILS.get(error.status_code, error.detail)
    response = problem_response(http_problem(error.status_code, detail, request.url.path))
    response.headers.update(error.headers or {})
    return response


def _allowed(router: APIRouter, path: str) -> str:
    """What `Allow` lists of a path: the methods of all routes of its template. Starlette lists those of the first."""
    routes = [route for route in router.routes if isinstance(route, Route)]
    template = next((route.path for route in routes if route.path_regex.match(path)), None)
    methods = {method for route in routes if route.path == template for method in route.methods or ()}
    return ", ".join(sorted(methods))


async def _failed(request: Request, _: Exception) -> Response:
    """What nobody foresaw: its text may hold anything, so it goes to the log and no further (see `boundary`)."""
    return problem_response(internal_problem(request.url.path))


def internal_problem(path: str) -> Problem:
    """The document of an error that nobody foresaw."""
    return problem_of(RequestError(ErrorCode.INTERNAL, "The gateway failed; its log says why."), path)
