"""JSON bodies read by the rules: UTF-8, and text that can be encoded again.

Python's own reader lets lone surrogates pass, which then fail where they are written.
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
"""Values of a body. What a run says beside its files must fit a NATS message of so many bytes, and files are one value
each; a body of tens of millions would take tens of seconds to read and to refuse, in which nothing else is answered."""


class _StrictRequest(Request):
    async def json(self) -> object:
        body = await self.body()
        if len(body) > _VALUES_MAX and sum(map(body.count, (b",", b"[", b"{"))) > _VALUES_MAX:
            raise HTTPException(413, f"The body holds more than {_VALUES_MAX} values.")
        try:
            if len(body) > _IN_THREAD_BYTES:
                return await asyncio.to_thread(from_json, body, allow_inf_nan=False)
            return from_json(body, allow_inf_nan=False)
        except ValueError as error:
            raise HTTPException(400, f"The body is not JSON in UTF-8: {error}.") from error


class StrictJsonRoute(APIRoute):
    """A route whose JSON body is read so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly
