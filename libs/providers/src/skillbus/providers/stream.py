"""One HTTP request to a provider whose reply is a stream of events. The reply is untrusted."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import anyio
import httpx
from pydantic import SecretStr
from pydantic_core import to_json

from skillbus.common.outbound.addresses import AddressRefusedError
from skillbus.providers.events import EventDecoder, EventTooLargeError, ServerEvent
from skillbus.providers.exchange import (
    CLOSED,
    JSON_BODY,
    UNREADABLE,
    DecompressionError,
    KeyAuth,
    ProviderRequest,
    Unpacker,
    describe_large_reply,
    describe_transport_error,
    read_complaint,
)
from skillbus.providers.failure import Failure, RequestContext

_EVENTS: Final = "text/event-stream"
_HEADERS: Final = {"Accept": _EVENTS, "Accept-Encoding": "identity", "Cache-Control": "no-store"}
"""A compressed stream would be held back until the compressor has enough."""
_ENDING_S: Final = 0.05
"""Wait for the end of a reply after its last event, so that the connection can be used again."""


class EventStream:
    """Stream of events that a provider has begun. The holder must close it, which ends the request at once."""

    def __init__(self, response: httpx.Response, request: ProviderRequest, context: RequestContext) -> None:
        """Raise DecompressionError if the reply cannot be read."""
        self.context = context
        self._request = request
        self._response = response
        self._chunks: AsyncIterator[bytes] = response.aiter_raw()
        self._unpacker = Unpacker(response)
        self._decoder = EventDecoder(request.event_bytes)
        self._ready: deque[ServerEvent] = deque()
        self._received = 0
        self._ended = False

    async def read_event(self, silence_s: float) -> ServerEvent | Failure | None:
        """Return the next event, or None at the end of the stream.

        Events and comments must not be more than `silence_s` apart.
        """
        if self._ready:
            return self._ready.popleft()
        loop = asyncio.get_running_loop()
        deadline, comments = loop.time() + silence_s, self._decoder.comments
        try:
            while not self._ready and not self._ended:
                async with asyncio.timeout_at(deadline):
                    chunk = await anext(self._chunks, None)
                self._decode_chunk(chunk)
                if comments != self._decoder.comments:
                    deadline, comments = loop.time() + silence_s, self._decoder.comments
                if self._received > self._request.reply_bytes:
                    return describe_large_reply(self._request.reply_bytes)
        except TimeoutError:
            return Failure(f"sent nothing more for {silence_s:g} s")
        except (EventTooLargeError, DecompressionError, httpx.HTTPError) as error:
            return self._describe_error(error)
        return self._ready.popleft() if self._ready else None

    async def read_end(self) -> None:
        """Read to the end of the reply, if it comes soon: only then its connection is used for the next request.

        The timeout is anyio's. That of asyncio interrupts httpcore also while it hands the connection back to its pool,
        which then counts the connection as used for ever; on a busy machine no chat got one any more.
        """
        with anyio.move_on_after(_ENDING_S), suppress(httpx.HTTPError):
            while await anext(self._chunks, None) is not None:
                pass

    async def close(self) -> None:
        """End the request. Closes the connection unless the reply was read to its end."""
        await self._response.aclose()

    def _describe_error(self, error: EventTooLargeError | DecompressionError | httpx.HTTPError) -> Failure:
        match error:
            case EventTooLargeError():
                size = self._request.event_bytes >> 10
                return Failure(f"sent an event of more than the {size} KiB that are expected")
            case DecompressionError():
                return Failure(UNREADABLE)
            case _:
                return describe_transport_error(error, self._request.url)

    def _decode_chunk(self, chunk: bytes | None) -> None:
        if chunk is None:
            self._ended = True
            self._ready.extend(self._decoder.finish())
            return
        for piece in self._unpacker.unpack_pieces(chunk):
            self._received += len(piece)
            if self._received > self._request.reply_bytes:
                return
            self._ready.extend(self._decoder.decode(piece))


async def open_event_stream(
    client: httpx.AsyncClient, request: ProviderRequest, key_reference: str | None, key: SecretStr | None
) -> EventStream | Failure:
    """Send the request once. Return the stream of a 2xx reply, or the failure.

    No httpx exception leaves this function: it holds the request, and so the key. There is no timeout here.
    """
    if client.is_closed:
        return CLOSED
    context = request.describe_context(key_reference, key)
    auth = KeyAuth(key, request.key_header) if key else None
    try:
        headers = {**_HEADERS, **JSON_BODY, **request.headers}
        sent = client.build_request("POST", request.url, content=to_json(request.body), headers=headers)
        response = await client.send(sent, auth=auth, stream=True)
    except (httpx.HTTPError, AddressRefusedError) as error:
        return describe_transport_error(error, request.url)
    stream: EventStream | Failure = Failure(UNREADABLE)
    try:
        stream = await _check_head(response, context) or EventStream(response, request, context)
    except DecompressionError:
        pass
    except httpx.HTTPError as error:
        stream = describe_transport_error(error, request.url)
    finally:
        if not isinstance(stream, EventStream):
            await response.aclose()
    return stream


async def _check_head(response: httpx.Response, context: RequestContext) -> Failure | None:
    if not response.is_success:
        return await read_complaint(response, context)
    if response.headers.get("content-type", "").partition(";")[0].strip().lower() != _EVENTS:
        return Failure(f"answered with something else than a stream of events ({_EVENTS})", status=response.status_code)
    return None
