"""One HTTP request to a provider, with a bounded reply. The reply is untrusted."""

import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import httpx
from pydantic import SecretStr
from pydantic_core import to_json

from skillbus.common.outbound.addresses import AddressRefusedError
from skillbus.providers.failure import Blame, Failure, RequestContext, classify_failure

ACCEPTED_ENCODING: Final = "gzip"
JSON_BODY: Final = {"Content-Type": "application/json"}
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_IDENTITY: Final = frozenset({"", "identity"})
_GZIP_WINDOW: Final = zlib.MAX_WBITS | 16
_COMPLAINT_BYTES: Final = 64 * 1024
_PIECE_BYTES: Final = 256 * 1024
CLOSED: Final = Failure("is closed: it was registered again, or the service is shutting down", Blame.REQUEST)
UNREADABLE: Final = "answered with content that cannot be decompressed"


class KeyHeader(Enum):
    """Header that carries the key: its name, and what stands before the key."""

    BEARER = ("Authorization", "Bearer ")
    X_API_KEY = ("x-api-key", "")


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """A POST of a JSON body."""

    model: str
    url: httpx.URL
    body: dict[str, object] = field(repr=False)
    reply_bytes: int
    """Bound on the decompressed reply. Larger replies are aborted: parsing one holds the GIL."""
    event_bytes: int = 1024 * 1024
    """Bound on one event of a streamed reply."""
    headers: Mapping[str, str] = field(default_factory=dict)
    key_header: KeyHeader = KeyHeader.BEARER
    input_fields: tuple[str, ...] | None = ("input",)
    """Fields of the body that hold the input, for telling a refused input from a wrong registration. None means all."""

    def describe_context(self, key_reference: str | None, key: SecretStr | None) -> RequestContext:
        """Return what the description of a failure needs."""
        return RequestContext(self.model, self.url.path, key_reference, key, self.input_fields)


class DecompressionError(Exception):
    """The body's encoding was not requested, or is not the one that its header states."""


class KeyAuth(httpx.Auth):
    """Adds the key to the request and nowhere else: no variable of ours holds it, should a traceback show them."""

    def __init__(self, key: SecretStr, header: KeyHeader) -> None:
        self._key = key
        self._header = header

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        name, before = self._header.value
        request.headers[name] = before + self._key.get_secret_value()
        yield request


async def exchange_once(
    client: httpx.AsyncClient, request: ProviderRequest, key_reference: str | None, key: SecretStr | None
) -> bytes | Failure:
    """Send the request once. Return the body of a 2xx reply of at most `request.reply_bytes`, or the failure.

    No httpx exception leaves this function: it holds the request, and so the key. There is no timeout here.
    """
    if client.is_closed:
        return CLOSED
    context = request.describe_context(key_reference, key)
    auth = KeyAuth(key, request.key_header) if key else None
    headers, body = {**JSON_BODY, **request.headers}, to_json(request.body)
    try:
        async with client.stream("POST", request.url, content=body, headers=headers, auth=auth) as response:
            if response.is_success:
                content = await _read_body(response, request.reply_bytes + 1)
                if len(content) > request.reply_bytes:
                    return describe_large_reply(request.reply_bytes)
                return content
            return await read_complaint(response, context)
    except DecompressionError:
        return Failure(UNREADABLE)
    except (httpx.HTTPError, AddressRefusedError) as error:
        return describe_transport_error(error, request.url)


async def read_complaint(response: httpx.Response, context: RequestContext) -> Failure:
    """Classify a reply with a status other than 2xx. Raises errors of httpx."""
    complaint = b""
    if not response.is_redirect:
        with suppress(DecompressionError):  # the status is still informative
            complaint = await _read_body(response, _COMPLAINT_BYTES)
    return classify_failure(response.status_code, dict(response.headers), complaint, context)


def describe_large_reply(reply_bytes: int) -> Failure:
    """Describe a reply that exceeds its bound."""
    return Failure(f"answered with more than the {reply_bytes >> 10} KiB that are expected")


def describe_transport_error(error: httpx.HTTPError | AddressRefusedError, url: httpx.URL) -> Failure:
    place = f"{url.host}:{url.port}" if url.port else url.host
    match error:
        case AddressRefusedError():
            return Failure(f"is not called: {error}", Blame.REQUEST)
        case httpx.ConnectError():
            return Failure(f"cannot be reached at {place}: {str(error)[:200]}", retryable=True)
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError():  # their messages may quote the headers
            return Failure(f"cannot be called: {type(error).__name__}", Blame.REQUEST)
        case _:
            return Failure(f"broke off at {place}: {type(error).__name__}", retryable=True)


class Unpacker:
    """Decompresses the chunks of a reply.

    httpx is not used for that: it decompresses as often as the header says and without a bound, so that 2 KB can become
    1 GB.
    """

    def __init__(self, response: httpx.Response) -> None:
        """Raise DecompressionError for an encoding that was not requested."""
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in _GZIP | _IDENTITY:
            raise DecompressionError
        self._gzip = zlib.decompressobj(_GZIP_WINDOW) if encoding in _GZIP else None

    def unpack(self, chunk: bytes, size: int) -> bytes:
        """Return at most the first `size` bytes of a chunk. Raises DecompressionError."""
        if self._gzip is None:
            return chunk[:size]
        try:
            return self._gzip.decompress(chunk, size)
        except zlib.error:
            raise DecompressionError from None

    def unpack_pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Yield all of a chunk in pieces of at most 256 KiB. Raises DecompressionError."""
        if self._gzip is None:
            yield chunk
            return
        while chunk:
            yield self.unpack(chunk, _PIECE_BYTES)
            chunk = self._gzip.unconsumed_tail


async def _read_body(response: httpx.Response, size: int) -> bytes:
    """Read and decompress the first `size` bytes."""
    unpacker = Unpacker(response)
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += unpacker.unpack(chunk, size - len(content))
        if len(content) >= size:
            break
    return bytes(content)
