"""Requests of the MCP endpoint to the routes of the gateway, in process and with the rights of the MCP client's key.

So every rule of a route holds for the MCP tool that uses it: role, project, limits, audit log, cancellation.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from pydantic import JsonValue
from starlette.types import ASGIApp, Message, Scope

from skillbus.common.bus import headers as bus_headers
from skillbus.contracts.http import Problem
from skillbus.gateway.adapters.boundary import TRACE

_OWN: Final = "skillbus."
"""Prefix of the members that the guard put into the ASGI scope."""
CLIENT_LEFT: Final = "skillbus.client_left"
"""Member of the ASGI scope of an MCP request: an event that is set when its reply has ended, complete or not."""
USER_APPROVED: Final = "skillbus.user_approved"
"""Member of the ASGI scope of a call that the user of the MCP client approved."""
_PROJECT: Final = "project"
_ending = set[asyncio.Task[None]]()
"""Requests that nobody waits for, until they have cancelled their work."""


class InnerRequestError(Exception):
    """A route refused a request."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class ClientLeftError(Exception):
    """The MCP client closed its connection before the reply. Without a stream to resume, it never gets the reply."""


class ReplyTooLargeError(Exception):
    """A reply exceeds the size that was asked for."""

    def __init__(self, path: str) -> None:
        super().__init__(f"the reply of {path} is too large")
        self.path = path
        """Path and query of the request."""


@dataclass(slots=True)
class InnerReply:
    """Reply of a route, complete or as much of it as came."""

    max_bytes: int | None = None
    """Most bytes that are kept."""
    on_chunk: Callable[[bytes], None] | None = None
    """Receiver of the chunks of a successful reply, which are then not kept."""
    status: int = 0
    body: bytes = b""
    is_too_large: bool = False

    def take_message(self, message: Message) -> None:
        """Add a message of the route."""
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            return
        chunk = message.get("body", b"")
        if self.on_chunk is not None and self.status < HTTPStatus.BAD_REQUEST:
            self.on_chunk(chunk)
        elif self.max_bytes is not None and len(self.body) + len(chunk) > self.max_bytes:
            self.is_too_large = True
        else:
            self.body += chunk

    def parse_json(self) -> dict[str, JsonValue]:
        """Return the JSON object of the reply."""
        value = json.loads(self.body)
        if not isinstance(value, dict):
            raise TypeError("the routes of MCP tools reply with objects")
        return value


async def send_inner_request(
    outer: Scope,
    method: str,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, JsonValue] | None = None,
    on_chunk: Callable[[bytes], None] | None = None,
    max_bytes: int | None = None,
) -> InnerReply:
    """Send a request to a route of the app that serves the `outer` request, and return its successful reply.

    Chunks of the body go to `on_chunk`, if given. If the caller is cancelled or the MCP client closes its connection,
    the route learns that its client left.

    Raises:
        ClientLeftError: The MCP client closed its connection.
        InnerRequestError: The route refused the request.
        ReplyTooLargeError: The reply has more than `max_bytes`. It is not read to its end.
    """
    reply, left = InnerReply(max_bytes, on_chunk), asyncio.Event()
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            await left.wait()
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode(), "more_body": False}

    async def send(message: Message) -> None:
        reply.take_message(message)
        if reply.is_too_large:
            left.set()

    app: ASGIApp = outer["app"]
    # A task of its own: a cancelled scope of the SDK would also cancel the route while it cancels its work.
    scope = _make_scope(outer, method, path, query, body)

    async def answer() -> None:
        bus_headers.traceparent.set(outer[TRACE])  # the task of a session has the trace of its first request
        await app(scope, receive, send)

    answering, leaving = asyncio.create_task(answer()), asyncio.create_task(outer[CLIENT_LEFT].wait())
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            left.set()
            await asyncio.shield(answering)
            raise ClientLeftError
        answering.result()
    except asyncio.CancelledError:
        left.set()
        _ending.add(answering)
        answering.add_done_callback(_ending.discard)
        raise
    finally:
        leaving.cancel()
    return _check_reply(reply, scope)


def _check_reply(reply: InnerReply, scope: Scope) -> InnerReply:
    """Return the reply, or raise the error that `send_inner_request` promises for it."""
    if reply.is_too_large:
        path, query_string = quote(scope["path"]), scope["query_string"].decode()
        raise ReplyTooLargeError(f"{path}?{query_string}" if query_string else path)
    if reply.status >= HTTPStatus.BAD_REQUEST:
        raise InnerRequestError(Problem.model_validate_json(reply.body))
    return reply


def _make_scope(
    outer: Scope, method: str, path: str, query: Mapping[str, str] | None, body: Mapping[str, JsonValue] | None
) -> Scope:
    kept = {name: value for name, value in outer.items() if name.startswith(_OWN)}
    shared = {name: outer.get(name) for name in ("asgi", "http_version", "scheme", "server", "client")}
    named = [(name, value) for name, value in parse_qsl(outer["query_string"].decode("latin-1")) if name == _PROJECT]
    return {
        **kept,
        **shared,
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": quote(path).encode(),
        "root_path": "",
        "query_string": urlencode([*named, *(query or {}).items()]).encode(),
        "headers": [] if body is None else [(b"content-type", b"application/json")],
    }
