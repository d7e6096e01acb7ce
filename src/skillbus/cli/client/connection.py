"""One request to the HTTP API and its answer, or the error that says why there is none."""

import json as json_format
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import BinaryIO, Final, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from skillbus.cli.client.advice import advice_on
from skillbus.cli.errors import NoAnswerError, ProblemError, StrangeReplyError, UnreachableError

ReplyT = TypeVar("ReplyT", bound=BaseModel)

ANSWER_S: Final = 60.0
_CONNECT_S: Final = 5.0


async def exchange(  # noqa: PLR0913 (what a request can be of)
    http: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    params: Mapping[str, str | Sequence[str]] | None = None,
    json: Mapping[str, object] | None = None,
    data: Mapping[str, str] | None = None,
    files: Mapping[str, tuple[str, bytes | BinaryIO, str]] | None = None,
    content: AsyncIterable[bytes] | None = None,
    headers: Mapping[str, str] | None = None,
    wait_s: float = ANSWER_S,
) -> httpx.Response:
    """The answer, which says that it worked. Raises the errors of `skillbus.cli.errors`."""
    with _told(http, wait_s):
        response = await http.request(
            method,
            url,
            params=params,
            json=json,
            data=data,
            files=files,
            content=content,
            headers=headers,
            timeout=httpx.Timeout(wait_s, connect=_CONNECT_S),
        )
    if not response.is_success:
        raise problem_in(response.content, response)
    return response


@asynccontextmanager
async def opened(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    params: Mapping[str, str | Sequence[str]],
    json: Mapping[str, object] | None = None,
    wait_s: float,
) -> AsyncIterator[httpx.Response]:
    """An answer that is read while it comes; `wait_s` is the longest silence. Raises as `exchange` does."""
    timeout = httpx.Timeout(wait_s, connect=_CONNECT_S)
    with _told(http, wait_s):
        async with http.stream(method, url, params=params, json=json, timeout=timeout) as response:
            if not response.is_success:
                raise problem_in(await response.aread(), response)
            yield response


@contextmanager
def _told(http: httpx.AsyncClient, wait_s: float) -> Iterator[None]:
    """Errors of the connection as those of the command line."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        base = str(http.base_url).rstrip("/")
        raise UnreachableError(
            f"nobody answers at {base} ({error or type(error).__name__})",
            "Start it with `skillbus up`, or name another address with --url or SKILLBUS_URL.",
        ) from error
    except httpx.TimeoutException as error:
        raise NoAnswerError(f"no answer within {wait_s:g} s", "Look into the server's log; try again.") from error
    except httpx.TransportError as error:
        raise NoAnswerError(
            f"the connection broke off ({error or type(error).__name__})", "Is it still running? `skillbus status`"
        ) from error


def parsed(reply: type[ReplyT], response: httpx.Response) -> ReplyT:
    """What an answer says.

    Raises:
        StrangeReplyError: It is something else.
    """
    return parsed_text(reply, response.content, response)


def parsed_text(reply: type[ReplyT], text: str | bytes, response: httpx.Response) -> ReplyT:
    """What a part of an answer says.

    Raises:
        StrangeReplyError: It is something else.
    """
    try:
        return reply.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise strange(response, f"its answer does not parse: {where}: {first['msg']}") from error


def strange(response: httpx.Response, what: str) -> StrangeReplyError:
    """What to raise on an answer that is not one of skillbus."""
    return StrangeReplyError(
        f"{response.url.copy_with(query=None)}: {what}", "Is this skillbus, and of the same version? Check --url."
    )


def problem_in(content: bytes, response: httpx.Response) -> ProblemError | StrangeReplyError:
    """The error that an answer, or a part of it, holds."""
    try:
        problem = json_format.loads(content)
    except ValueError:
        problem = None
    if isinstance(problem, dict) and isinstance(problem.get("error"), dict):
        # Under /v1 errors are as OpenAI has them.
        problem = {"detail": problem["error"].get("message"), "code": problem["error"].get("code")}
    if not isinstance(problem, dict) or not {"title", "detail", "code"} & problem.keys():
        return strange(response, f"it answered {response.status_code} without a problem document")
    status = problem.get("status")
    known = status if isinstance(status, int) else response.status_code
    return ProblemError(problem, known, advice_on(str(problem.get("code") or "")))
