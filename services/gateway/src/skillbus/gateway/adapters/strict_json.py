"""Strict reading of JSON bodies: UTF-8 without lone surrogates, exact types, and no unknown fields.

Python's parser accepts lone surrogates, which fail later when the text is encoded.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final

from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from skillbus.gateway.adapters.strict_body import StrictBody

_IN_THREAD_BYTES: Final = 256 * 1024
_VALUES_MAX: Final = 1024 * 1024
"""Most values of a body. Valid bodies must fit into a NATS message of as many bytes, apart from files, which are one
value each. Parsing tens of millions of values would block every other request for tens of seconds."""


class StrictRequest(Request):
    """Request that parses its JSON body strictly, and validates it if the route takes one."""

    def __init__(self, scope: Scope, receive: Receive, body: StrictBody | None = None) -> None:
        super().__init__(scope, receive)
        self._strict_body = body

    async def json(self) -> object:
        body = await self.body()
        if len(body) > _VALUES_MAX and sum(map(body.count, (b",", b"[", b"{"))) > _VALUES_MAX:
            raise HTTPException(413, f"The body has more than {_VALUES_MAX} values.")
        is_large = len(body) > _IN_THREAD_BYTES
        try:
            value = await asyncio.to_thread(_parse, body) if is_large else _parse(body)
        except ValueError as error:
            raise HTTPException(400, f"The body is not JSON in UTF-8: {error}.") from error
        value = self.bind_value(value)
        if self._strict_body is None:
            return value
        validate = self._strict_body.validate_value
        return await asyncio.to_thread(validate, value) if is_large else validate(value)

    def bind_value(self, value: object) -> object:
        """Return the parsed body as it is validated."""
        return value


def _parse(body: bytes) -> object:
    value: object = from_json(body, allow_inf_nan=False)
    return value


class StrictJsonRoute(APIRoute):
    """Route that parses and validates its JSON body strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        handle = super().get_route_handler()
        body = StrictBody.from_route(self)

        async def handle_strictly(request: Request) -> Response:
            strict = self.choose_request_class()(request.scope, request.receive, body)
            if body is not None and not body.is_read and await strict.body():
                await strict.json()  # FastAPI does not look at it
            return await handle(strict)

        return handle_strictly

    def choose_request_class(self) -> type[StrictRequest]:
        """Return the class of its requests."""
        return StrictRequest
