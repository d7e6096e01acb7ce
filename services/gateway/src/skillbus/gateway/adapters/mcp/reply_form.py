"""Form of replies: plain JSON to requests that are answered soon, and Server-Sent Events to calls of tools and skills.

A stream is kept alive by comments, carries progress, and shows when its client leaves. A run needs that. A search does
not, and a stream would take more time than all else that the endpoint does for it.
"""

import json
from contextvars import ContextVar
from typing import Final

from starlette.types import Message, Receive

from skillbus.gateway.adapters.mcp.tools import LONG_TOOLS

_INSPECTED_BYTES: Final = 64 * 1024
"""Largest body that is inspected. Larger ones hold input files of runs, as a rule."""
_is_json: ContextVar[bool] = ContextVar("reply to the current request is plain JSON", default=False)


class ReplyForm:
    """True while a request is handled whose reply is plain JSON. The SDK tests it for each request."""

    def __bool__(self) -> bool:
        return _is_json.get()


def choose_form(receive: Receive) -> Receive:
    """Return a `receive` that sets the form of the reply for the task that receives the body."""
    body = bytearray()

    async def receive_and_choose() -> Message:
        message = await receive()
        if message["type"] == "http.request" and len(body) <= _INSPECTED_BYTES:
            body.extend(message.get("body", b""))
            _is_json.set(not message.get("more_body", False) and is_answered_soon(bytes(body)))
        return message

    return receive_and_choose


def is_answered_soon(body: bytes) -> bool:
    """Return whether a body is a whole request that needs no stream."""
    if len(body) > _INSPECTED_BYTES:
        return False
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(message, dict):
        return False
    params = message.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    return not (message.get("method") == "tools/call" and name in LONG_TOOLS)
