"""Connection of the command line: sends calls through `skillbus.client`, and turns its errors into `CliError`s."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar, Unpack

import httpx
from pydantic import BaseModel

from skillbus.cli.client.http_api import make_cli_error, parse_reply
from skillbus.client.call import Call, QueryParams, SentParts, check_same_server
from skillbus.client.connection import AsyncConnection
from skillbus.client.errors import SkillbusError

_REPLY_S: Final = 60.0

ReplyT = TypeVar("ReplyT", bound=BaseModel)
PageT = TypeVar("PageT", bound=BaseModel)
RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class Remote:
    """Address of the server, and the key and project to send with every request."""

    url: str
    key: str | None = field(default=None, repr=False)
    project: str | None = None


@dataclass(frozen=True, slots=True)
class ApiConnection:
    """HTTP client bound to one server and project. All methods raise the errors of `skillbus.cli.errors`."""

    client: AsyncConnection
    project: str | None = None

    @property
    def scope(self) -> dict[str, str]:
        """The project as a query parameter or body member; empty when the server decides."""
        return {"project": self.project} if self.project else {}

    async def send(
        self, method: str, path: str, *, wait_s: float = _REPLY_S, **parts: Unpack[SentParts]
    ) -> httpx.Response:
        """Send a request and return its successful response."""
        with _cli_errors():
            return await self.client.send(Call(method, path, parts, wait_s))

    async def request(
        self, reply: type[ReplyT], method: str, path: str, *, wait_s: float = _REPLY_S, **parts: Unpack[SentParts]
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
        self, method: str, path: str, *, silence_s: float, **parts: Unpack[SentParts]
    ) -> AsyncIterator[httpx.Response]:
        """Open a response and read its body as it arrives. `silence_s` is the longest pause between two parts."""
        with _cli_errors():
            async with self.client.stream(Call(method, path, parts, silence_s)) as response:
                yield response

    async def fetch_url(self, url: str) -> bytes:
        """Return the content at a URL of this server. Other servers are refused: they must not receive the key."""
        with _cli_errors():
            check_same_server(self.client.url, url)
        return (await self.send("GET", url)).content


@asynccontextmanager
async def open_connection(
    remote: Remote, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[ApiConnection]:
    """Open a connection for the length of a command, which asks once and tells its user what failed.

    Raises:
        ValueError: `remote.url` is not the address of an HTTP server.
    """
    async with AsyncConnection(remote.url, remote.key, retries=0, transport=transport) as client:
        yield ApiConnection(client, remote.project)


@contextmanager
def _cli_errors() -> Iterator[None]:
    """Turn errors of the client into errors of the command line."""
    try:
        yield
    except SkillbusError as error:
        raise make_cli_error(error) from error
