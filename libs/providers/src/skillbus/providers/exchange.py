"""One HTTP request to a provider, with a bounded reply. The reply is untrusted."""

import zlib
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import httpx
from pydantic import SecretStr

from skillbus.common.outbound.addresses import AddressRefusedError
from skillbus.providers.failure import Blame, Failure, RequestContext, classify_failure

ACCEPTED_ENCODING: Final = "gzip"
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_IDENTITY: Final = frozenset({"", "identity"})
_GZIP_WINDOW: Final = zlib.MAX_WBITS | 16
_COMPLAINT_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """A POST of a JSON body."""

    model: str
    url: httpx.URL
    body: dict[str, object] = field(repr=False)
    reply_bytes: int
    """Bound on the decompressed reply. Larger replies are aborted: parsing one holds the GIL."""


class _DecompressionError(Exception):
    """The body's encoding was not requested, or is not the one that its header states."""


class _BearerAuth(httpx.Auth):
    """Adds the key to the request and nowhere else: no variable of ours holds it, should a traceback show them."""

    def __init__(self, key: SecretStr) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
        yield request


async def exchange_once(
    client: httpx.AsyncClient, request: ProviderRequest, key_reference: str | None, key: SecretStr | None
) -> bytes | Failure:
    """Send the request once. Return the body of a 2xx reply of at most `request.reply_bytes`, or the failure.

    No httpx exception leaves this function: it holds the request, and so the key. There is no timeout here.
    """
    if client.is_closed:
        return Failure("is closed: it was registered again, or the service is shutting down", Blame.REQUEST)
    context = RequestContext(request.model, request.url.path, key_reference, key)
    auth = _BearerAuth(key) if key else None
    try:
        async with client.stream("POST", request.url, json=request.body, auth=auth) as response:
            if response.is_success:
                content = await _read_body(response, request.reply_bytes + 1)
                if len(content) > request.reply_bytes:
                    return Failure(f"answered with more than the {request.reply_bytes >> 10} KiB that are expected")
                return content
            complaint = b""
            if not response.is_redirect:
                with suppress(_DecompressionError):  # the status is still informative
                    complaint = await _read_body(response, _COMPLAINT_BYTES)
            return classify_failure(response.status_code, dict(response.headers), complaint, context)
    except _DecompressionError:
        return Failure("answered with content that cannot be decompressed")
    except (httpx.HTTPError, AddressRefusedError) as error:
        return _describe_transport_error(error, request.url)


def _describe_transport_error(error: httpx.HTTPError | AddressRefusedError, url: httpx.URL) -> Failure:
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


async def _read_body(response: httpx.Response, size: int) -> bytes:
    """Read and decompress the first `size` bytes.

    httpx is not used for that: it decompresses as often as the header says and without a bound, so that 2 KB can become
    1 GB.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _GZIP | _IDENTITY:
        raise _DecompressionError
    unpacker = zlib.decompressobj(_GZIP_WINDOW) if encoding in _GZIP else None
    content = bytearray()
    async for chunk in response.aiter_raw():
        left = size - len(content)
        try:
            content += chunk[:left] if unpacker is None else unpacker.decompress(chunk, left)
        except zlib.error:
            raise _DecompressionError from None
        if len(content) >= size:
            break
    return bytes(content)
