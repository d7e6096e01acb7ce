"""Silence in a stream, on a clock that a test moves."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from skillbus.providers.events import ServerEvent
from skillbus.providers.exchange import ProviderRequest
from skillbus.providers.failure import Failure
from skillbus.providers.stream import EventStream

SILENCE_S = 30.0


class Chunks(httpx.AsyncByteStream):
    """Sends one chunk every 20 s of a clock that it moves itself."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks
        self._loop = asyncio.get_running_loop()
        self._real = self._loop.time
        self._passed = 0.0
        self._loop.time = lambda: self._real() + self._passed  # type: ignore[method-assign]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            self._passed += 20
            await asyncio.sleep(0)  # timeouts that have passed fire
            await asyncio.sleep(0)
            yield chunk


async def read_first(*chunks: bytes) -> ServerEvent | Failure | None:
    request = ProviderRequest("m", httpx.URL("http://h/x"), {}, 1000)
    response = httpx.Response(200, stream=Chunks(*chunks), request=httpx.Request("POST", request.url))
    stream = EventStream(response, request, request.describe_context(None, None))
    try:
        return await stream.read_event(SILENCE_S)
    finally:
        await stream.close()


async def test_comments_are_signs_of_life() -> None:
    comments = [b": thinking\n\n"] * 8
    assert await read_first(*comments, b"data: 1\n\n") == ServerEvent("", b"1")


@pytest.mark.parametrize("chunk", [b"d", b"\n", b"data: 1\n", b":"])
async def test_pieces_that_complete_nothing_are_none(chunk: bytes) -> None:
    failure = await read_first(*[chunk] * 8, b"\n\ndata: 1\n\n")
    assert isinstance(failure, Failure)
    assert "nothing more" in failure.reason
