"""The two transports: a synchronous and an asynchronous connection that send the same calls."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Final, Self, TypedDict

import httpx

from skillbus.client.call import Call, RetryPlan, build_error
from skillbus.client.errors import NoReplyError, ServerUnreachableError, SkillbusError
from skillbus.client.local_server import is_loopback_url

DEFAULT_TIMEOUT_S: Final = 60.0
DEFAULT_RETRIES: Final = 2
_CONNECT_S: Final = 5.0


class _HttpOptions(TypedDict):
    base_url: str
    headers: dict[str, str]
    trust_env: bool
    verify: ssl.SSLContext | bool


class SyncConnection:
    """Connection to one server that blocks the caller. Threads may share it."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        project: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.project = project
        self._timeout_s = timeout_s
        self._retries = retries
        self._http = httpx.Client(**_http_options(url, api_key), transport=transport)

    @property
    def url(self) -> str:
        """Address of the server."""
        return str(self._http.base_url).rstrip("/")

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, call: Call) -> httpx.Response:
        """Send a call and return its successful response."""
        plan = RetryPlan(call, self._retries)
        while True:
            try:
                with self.stream(call) as response:
                    response.read()
                    return response
            except SkillbusError as error:
                if (pause_s := plan.next_pause_s(error)) is None:
                    raise
                time.sleep(pause_s)

    @contextmanager
    def stream(self, call: Call) -> Iterator[httpx.Response]:
        """Open a successful response and read its body as it arrives. Nothing is sent again."""
        timeout_s = call.timeout_s or self._timeout_s
        timeout = httpx.Timeout(timeout_s, connect=_CONNECT_S)
        with (
            _transport_errors(self.url, timeout_s),
            self._http.stream(call.method, call.path, timeout=timeout, **call.parts) as response,
        ):
            if not response.is_success:
                raise build_error(response.read(), response)
            yield response


class AsyncConnection:
    """Connection to one server for asyncio."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        project: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.project = project
        self._timeout_s = timeout_s
        self._retries = retries
        self._http = httpx.AsyncClient(**_http_options(url, api_key), transport=transport)

    @property
    def url(self) -> str:
        """Address of the server."""
        return str(self._http.base_url).rstrip("/")

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def build_request(self, call: Call) -> httpx.Request:
        """Build the request that `send` sends for a call, for callers that send it themselves."""
        return self._http.build_request(call.method, call.path, **call.parts)

    async def send(self, call: Call) -> httpx.Response:
        """Send a call and return its successful response."""
        plan = RetryPlan(call, self._retries)
        while True:
            try:
                async with self.stream(call) as response:
                    await response.aread()
                    return response
            except SkillbusError as error:
                if (pause_s := plan.next_pause_s(error)) is None:
                    raise
                await asyncio.sleep(pause_s)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[httpx.Response]:
        """Open a successful response and read its body as it arrives. Nothing is sent again."""
        timeout_s = call.timeout_s or self._timeout_s
        timeout = httpx.Timeout(timeout_s, connect=_CONNECT_S)
        with _transport_errors(self.url, timeout_s):
            async with self._http.stream(call.method, call.path, timeout=timeout, **call.parts) as response:
                if not response.is_success:
                    raise build_error(await response.aread(), response)
                yield response


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


def _http_options(url: str, api_key: str | None) -> _HttpOptions:
    """Return the options of both kinds of client. Proxies of the environment are not used for a loopback address.

    For HTTP on a loopback address, no certificates of authorities are loaded, which takes longer than a request.
    """
    headers = {"Accept": "application/json"}
    if check_key(api_key):
        headers["Authorization"] = f"Bearer {api_key}"
    is_loopback = is_loopback_url(check_url(url))
    needs_no_tls = is_loopback and url.lower().startswith("http:")
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if needs_no_tls else True
    return {"base_url": url, "headers": headers, "trust_env": not is_loopback, "verify": verify}


@contextmanager
def _transport_errors(base: str, timeout_s: float) -> Iterator[None]:
    """Turn errors of httpx into errors of the client."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise ServerUnreachableError(base.rstrip("/"), str(error) or type(error).__name__) from error
    except httpx.TimeoutException as error:
        raise NoReplyError(type(error).__name__, timeout_s=timeout_s) from error
    except httpx.TransportError as error:
        raise NoReplyError(f"the connection broke off ({error or type(error).__name__})") from error
