"""Cancellation of work when the caller closes its connection."""

import asyncio
from collections.abc import Coroutine
from typing import Final, TypeVar

from fastapi import Request

CLIENT_CLOSED_REQUEST: Final = 499
"""Status for the log, as in nginx. Nobody receives it."""

ResultT = TypeVar("ResultT")


class CallerLeftError(Exception):
    """The caller closed its connection before the reply."""


async def await_while_connected(request: Request, work: Coroutine[None, None, ResultT]) -> ResultT:
    """Return the result of the work. The body of the request must have been read.

    Raises:
        CallerLeftError: The caller closed its connection, and the work was cancelled.
    """

    async def await_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(await_disconnect())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CallerLeftError
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.wait({working, leaving})
