"""One request over HTTP, and a reply that may be anything."""

import zlib
from collections.abc import Generator
from dataclasses import dataclass, field

import httpx
from pydantic import SecretStr

from skillbus.embedder.adapters.http.failure import Asked, Blame, Failure, failure_of

ACCEPTED_ENCODING = "gzip"
_GZIP = frozenset({"gzip", "x-gzip"})
_AS_IT_IS = frozenset({"", "identity"})
_GZIP_WINDOW = zlib.MAX_WBITS | 16
_COMPLAINT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Question:
    """What is posted where."""

    model: str
    url: httpx.URL
    body: dict[str, object] = field(repr=False)
    reply_bytes: int
    """What answers it takes no more, decompressed: larger replies are broken off. Reading one holds the interpreter."""


class _NotDecompressibleError(Exception):
    """A body that is in no encoding that was asked for, or not in the one that it says."""


class _Bearer(httpx.Auth):
    """Puts the key into the request and nowhere else: no variable of ours holds it, should a traceback show them."""

    def __init__(self, key: SecretStr) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
        yield request


async def exchange(
    client: httpx.AsyncClient, question: Question, reference: str | None, key: SecretStr | None
) -> bytes | Failure:
    """The body of a reply with status 2xx and at most `question.reply_bytes`, or what went wrong.

    No exception of httpx leaves it: they hold the request, and so the key. Takes as long as the provider does.
    """
    if client.is_closed:
        return Failure("is closed: it was registered anew, or the embedder is shutting down", Blame.REQUEST)
    asked = Asked(question.model, question.url.path, reference, key)
    auth = _Bearer(key) if key else None
    try:
        async with client.stream("POST", question.url, json=question.body, auth=auth) as response:
            if response.is_success:
                return await _read(response, question.reply_bytes)
            told = b"" if response.is_redirect else await _complaint(response)
            return failure_of(response.status_code, dict(response.headers), told, asked)
    except _NotDecompressibleError:
        return Failure("answered something that cannot be decompressed")
    except httpx.HTTPError as error:
        return _broken_off(error, question.url)


def _broken_off(error: httpx.HTTPError, url: httpx.URL) -> Failure:
    place = f"{url.host}:{url.port}" if url.port else url.host
    match error:
        case httpx.ConnectError():
            return Failure(f"cannot be reached at {place}: {str(error)[:200]}", again=True)
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError():  # their messages may quote the headers
            return Failure(f"cannot be asked: {type(error).__name__}", Blame.REQUEST)
        case _:
            return Failure(f"broke off at {place}: {type(error).__name__}", again=True)


async def _read(response: httpx.Response, reply_bytes: int) -> bytes | Failure:
    content = await _begin(response, reply_bytes + 1)
    if len(content) > reply_bytes:
        return Failure(f"answered with more than the {reply_bytes >> 10} KiB that the vectors asked for take")
    return content


async def _complaint(response: httpx.Response) -> bytes:
    try:
        return await _begin(response, _COMPLAINT_BYTES)
    except _NotDecompressibleError:
        return b""  # its status still says something


async def _begin(response: httpx.Response, size: int) -> bytes:
    """The first `size` bytes, decompressed.

    Not by httpx, which decompresses as often as the header says and without a bound: 2 KB can become 1 GB.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _GZIP | _AS_IT_IS:
        raise _NotDecompressibleError
    unpack = zlib.decompressobj(_GZIP_WINDOW) if encoding in _GZIP else None
    content = bytearray()
    async for chunk in response.aiter_raw():
        left = size - len(content)
        content += chunk[:left] if unpack is None else _unpacked(unpack, chunk, left)
        if len(content) >= size:
            break
    return bytes(content)


def _unpacked(unpack: "zlib._Decompress", chunk: bytes, most: int) -> bytes:
    try:
        return unpack.decompress(chunk, most)
    except zlib.error:
        raise _NotDecompressibleError from None
