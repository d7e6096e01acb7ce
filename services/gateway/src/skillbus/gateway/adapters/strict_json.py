"""Strict parsing of JSON bodies: UTF-8, without lone surrogates.

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

_IN_THREAD_BYTES: Final = 256 * 1024
_VALUES_MAX: Final = 1024 * 1024
"""Most values of a body. Valid bodies must fit into a NATS message of as many bytes, apart from files, which are one
value each. Parsing tens of millions of values would block every other request for tens of seconds."""


class StrictRequest(Request):
    """Request that parses its JSON body strictly."""

    async def json(self) -> object:
        body = await self.body()
        if len(body) > _VALUES_MAX and sum(map(body.count, (b",", b"[", b"{"))) > _VALUES_MAX:
            raise HTTPException(413, f"The body has more than {_VALUES_MAX} values.")
        try:
            if len(body) > _IN_THREAD_BYTES:
                return await asyncio.to_thread(from_json, body, allow_inf_nan=False)
            return from_json(body, allow_inf_nan=False)
        except ValueError as error:
            raise HTTPException(400, f"The body is not JSON in UTF-8: {error}.") from error


class StrictJsonRoute(APIRoute):
    """Route that parses its JSON body strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            if not isinstance(request, StrictRequest):
                request = StrictRequest(request.scope, request.receive)
            return await handle(request)

        return handle_strictly
