"""The end of a streamed reply, as it is handed back to the pool of connections."""

import asyncio
from collections.abc import AsyncIterator

import anyio
import httpx
import pytest

from skillbus.providers import stream
from skillbus.providers.exchange import ProviderRequest


class SlowlyHandedBack(httpx.AsyncByteStream):
    """Body whose end is handed back as httpcore does it: behind a shield, with pauses."""

    def __init__(self) -> None:
        self.handed_back = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with anyio.CancelScope(shield=True):
            for _ in range(10):
                await asyncio.sleep(0)
            self.handed_back = True
        for chunk in list[bytes]():
            yield chunk


async def test_a_connection_is_handed_back_whole_although_the_time_for_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "_ENDING_S", 0)
    body = SlowlyHandedBack()
    request = ProviderRequest("m", httpx.URL("http://localhost/v1"), {}, reply_bytes=1_000)
    reply = httpx.Response(200, stream=body, request=httpx.Request("POST", request.url))
    await stream.EventStream(reply, request, request.describe_context(None, None)).read_end()
    assert body.handed_back
