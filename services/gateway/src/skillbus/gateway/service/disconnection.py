"""Work that is given up when nobody waits for its answer any more."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from fastapi import Request

ResultT = TypeVar("ResultT")


class CallerLeftError(Exception):
    """The connection was closed before the answer was there."""


async def while_connected(request: Request, work: Coroutine[None, None, ResultT]) -> ResultT:
    """The result of the work. The body of the request has been read.

    Raises:
        CallerLeftError: The caller hung up; the work was cancelled.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CallerLeftError
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.wait({working, leaving})


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
