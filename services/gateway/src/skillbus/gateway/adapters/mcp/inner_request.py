"""Requests of the MCP endpoint to the routes of the gateway, in process and with the rights of the MCP client's key.

So every rule of a route holds for the MCP tool that uses it: role, project, limits, audit log, cancellation.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from pydantic import JsonValue
from starlette.types import ASGIApp, Message, Scope

from skillbus.contracts.http import Problem

_OWN: Final = "skillbus."
"""Prefix of the members that the guard put into the ASGI scope."""
_PROJECT: Final = "project"
_ending = set[asyncio.Task[None]]()
"""Requests that nobody waits for, until they have cancelled their work."""


class InnerRequestError(Exception):
    """A route refused a request."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


@dataclass(slots=True)
class InnerReply:
    """Reply of a route."""

    status: int = 0
    media_type: str = ""
    body: bytes = b""

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
) -> InnerReply:
    """Send a request to a route of the app that serves the `outer` request, and return its successful reply.

    Chunks of the body go to `on_chunk`, if given. If the caller is cancelled, the route learns that its client left.

    Raises:
        InnerRequestError: The route refused the request.
    """
    reply, left = InnerReply(), asyncio.Event()
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            await left.wait()
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode(), "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            reply.status = int(message["status"])
            headers = {name.lower(): value.decode("latin-1") for name, value in message["headers"]}
            reply.media_type = headers.get(b"content-type", "")
        elif chunk := message.get("body", b""):
            if on_chunk is not None and reply.status < 400:
                on_chunk(chunk)
            else:
                reply.body += chunk

    app: ASGIApp = outer["app"]
    # A task of its own: a cancelled scope of the SDK would also cancel the route while it cancels its work.
    scope = _make_scope(outer, method, path, query, body)

    async def answer() -> None:
        await app(scope, receive, send)

    answering = asyncio.create_task(answer())
    try:
        await asyncio.shield(answering)
    except asyncio.CancelledError:
        left.set()
        _ending.add(answering)
        answering.add_done_callback(_ending.discard)
        raise
    if reply.status >= 400:
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
