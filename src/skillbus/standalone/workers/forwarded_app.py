"""Requests that one process answers for all: a worker hands them over with all that belongs to them.

The main process runs its whole application for such a request, access and limits included, and asks the worker for
the body and to send the reply. So a body is read, and a reply written, as fast as the other side takes it.
"""

import itertools
from collections.abc import Callable
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skillbus.standalone.workers.channel import Handlers, ProcessChannel

_RUN: Final = "run_request"
_RECEIVE: Final = "receive_message"
_SEND: Final = "send_message"
_PARTS: Final = (
    *("type", "asgi", "http_version", "server", "client", "scheme", "method"),
    *("root_path", "path", "raw_path", "query_string", "headers"),
)
"""Members of an ASGI scope that describe the request."""


class ForwardingLayer:
    """ASGI layer of a worker that hands requests of some paths to the main process."""

    def __init__(self, app: ASGIApp, paths: frozenset[str], forward: ASGIApp) -> None:
        self._app = app
        self._paths = paths
        self._forward = forward

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_forwarded = scope["type"] == "http" and scope["path"] in self._paths
        await (self._forward if is_forwarded else self._app)(scope, receive, send)


class ForwardedRequests:
    """The worker's side: an ASGI application that the main process answers for."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._open: dict[int, tuple[Receive, Send]] = {}
        self.channel: ProcessChannel | None = None

    def list_handlers(self) -> Handlers:
        """Return the functions that the main process calls."""

        async def receive(number: int) -> Message:
            return await self._open[number][0]()

        async def send(number: int, message: Message) -> None:
            await self._open[number][1](message)

        return {_RECEIVE: receive, _SEND: send}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.channel is None:
            raise RuntimeError("the channel to the main process is not open")
        number = next(self._numbers)
        self._open[number] = receive, send
        try:
            await self.channel.call(_RUN, number, {part: scope[part] for part in _PARTS if part in scope})
        finally:
            del self._open[number]


def list_request_handlers(get_channel: Callable[[], ProcessChannel], get_app: Callable[[], ASGIApp]) -> Handlers:
    """Return the function that a worker calls in the main process, whose application then answers a request."""

    async def run(number: int, scope: dict[str, Any]) -> None:
        channel = get_channel()

        async def receive() -> Message:
            message: Message = await channel.call(_RECEIVE, number)
            return message

        async def send(message: Message) -> None:
            await channel.call(_SEND, number, message)

        await get_app()({**scope, "state": {}}, receive, send)

    return {_RUN: run}
