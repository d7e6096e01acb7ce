"""Connection to the HTTP API: sends requests, parses replies, and turns every failure into a `CliError`."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import BinaryIO, Final, TypedDict, TypeVar, Unpack
from urllib.parse import urljoin, urlsplit

import httpx
from pydantic import BaseModel

from skillbus.cli.client.http_api import parse_problem, parse_reply
from skillbus.cli.errors import NoAnswerError, StrangeReplyError, UnreachableError

QueryParams = Mapping[str, str | Sequence[str]]
JsonMembers = Mapping[str, object]

_REPLY_S: Final = 60.0
_CONNECT_S: Final = 5.0


ReplyT = TypeVar("ReplyT", bound=BaseModel)
PageT = TypeVar("PageT", bound=BaseModel)
RowT = TypeVar("RowT")


class RequestParts(TypedDict, total=False):
    """Optional parts of a request."""

    params: QueryParams
    json: JsonMembers | None
    data: Mapping[str, str]
    files: Mapping[str, tuple[str, bytes | BinaryIO, str]]
    content: AsyncIterable[bytes]
    headers: Mapping[str, str] | Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Remote:
    """Address of the server, and the key and project to send with every request."""

    url: str
    key: str | None = field(default=None, repr=False)
    project: str | None = None


@dataclass(frozen=True, slots=True)
class ApiConnection:
    """HTTP client bound to one server and project. All methods raise the errors of `skillbus.cli.errors`."""

    http: httpx.AsyncClient
    project: str | None = None

    @property
    def scope(self) -> dict[str, str]:
        """The project as a query parameter or body member; empty when the server decides."""
        return {"project": self.project} if self.project else {}

    async def send(
        self, method: str, path: str, *, wait_s: float = _REPLY_S, **parts: Unpack[RequestParts]
    ) -> httpx.Response:
        """Send a request and return its successful response."""
        timeout = httpx.Timeout(wait_s, connect=_CONNECT_S)
        with self._cli_errors(wait_s):
            response = await self.http.request(method, path, timeout=timeout, **parts)
        if not response.is_success:
            raise parse_problem(response.content, response)
        return response

    async def request(
        self, reply: type[ReplyT], method: str, path: str, *, wait_s: float = _REPLY_S, **parts: Unpack[RequestParts]
    ) -> ReplyT:
        """Send a request and parse the body of its response."""
        response = await self.send(method, path, wait_s=wait_s, **parts)
        return parse_reply(reply, response.content, response)

    async def list_rows(
        self,
        page_type: type[PageT],
        path: str,
        params: QueryParams,
        read_page: Callable[[PageT], tuple[Sequence[RowT], str | int | None]],
        *,
        page_size: int,
        limit: int | None = None,
        cursor: str = "after",
    ) -> tuple[list[RowT], PageT]:
        """Return the rows of a list, `limit` at most, and the last page.

        `read_page` returns the rows of a page and the position of the next page; `cursor` is the parameter that takes
        this position.
        """
        rows: list[RowT] = []
        position: dict[str, str] = {}
        while True:
            size = page_size if limit is None else min(page_size, limit - len(rows))
            query = {**params, "limit": str(size), **self.scope, **position}
            page = await self.request(page_type, "GET", path, params=query)
            more, following = read_page(page)
            rows += more
            # A server that repeats a position must not keep this loop running.
            if following is None or position == {cursor: str(following)} or (limit is not None and len(rows) >= limit):
                return rows, page
            position = {cursor: str(following)}

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, silence_s: float, **parts: Unpack[RequestParts]
    ) -> AsyncIterator[httpx.Response]:
        """Open a response and read its body as it arrives. `silence_s` is the longest pause between two parts."""
        timeout = httpx.Timeout(silence_s, connect=_CONNECT_S)
        with self._cli_errors(silence_s):
            async with self.http.stream(method, path, timeout=timeout, **parts) as response:
                if not response.is_success:
                    raise parse_problem(await response.aread(), response)
                yield response

    async def fetch_url(self, url: str) -> bytes:
        """Return the content at a URL of this server. Other servers are refused: they must not receive the key."""
        base = str(self.http.base_url)
        if _origin(urljoin(base, url)) != _origin(base):
            raise StrangeReplyError(f"an artifact lies at {url}, which is another server", "Fetch it by hand.")
        return (await self.send("GET", url)).content

    @contextmanager
    def _cli_errors(self, wait_s: float) -> Iterator[None]:
        """Turn errors of the transport into errors of the command line."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            base = str(self.http.base_url).rstrip("/")
            raise UnreachableError(
                f"no server answers at {base} ({error or type(error).__name__})",
                "Start it with `skillbus up`, or give its address with --url or SKILLBUS_URL.",
            ) from error
        except httpx.TimeoutException as error:
            raise NoAnswerError(f"no answer within {wait_s:g} s", "Try again, or read the server's log.") from error
        except httpx.TransportError as error:
            raise NoAnswerError(
                f"the connection broke off ({error or type(error).__name__})",
                "`skillbus status` shows whether the server is still running.",
            ) from error


@asynccontextmanager
async def open_connection(
    remote: Remote, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[ApiConnection]:
    """Open a connection for the length of a command. Proxies of the environment are not used for a loopback address.

    Raises:
        ValueError: `remote.url` is not the address of an HTTP server.
    """
    headers = {"Accept": "application/json"}
    if remote.key:
        headers["Authorization"] = f"Bearer {remote.key}"
    host = urlsplit(check_url(remote.url)).hostname or ""
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    async with httpx.AsyncClient(
        base_url=remote.url, headers=headers, transport=transport, trust_env=not is_loopback
    ) as http:
        yield ApiConnection(http, remote.project)


def check_url(url: str) -> str:
    """Return the address of an HTTP server unchanged.

    Raises:
        ValueError: It is something else.
    """
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is not an address: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.host:
        raise ValueError(f"{url!r} is not an address like http://127.0.0.1:8080")
    return url


def check_key(key: str | None) -> str | None:
    """Return the key unchanged.

    Raises:
        ValueError: An HTTP header cannot carry it.
    """
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ValueError("a key consists of printable ASCII characters")
    return key


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
