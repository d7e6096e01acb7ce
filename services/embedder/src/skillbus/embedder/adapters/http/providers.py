"""The providers that are in use: one for each version of a registration, closed when its last model is."""

import asyncio
import ssl
from types import TracebackType
from typing import Self

import httpx

from skillbus.contracts.embedder.registry import ProviderRecord
from skillbus.embedder.adapters.http.provider import HttpProvider, Remaining, Tuning, http_client
from skillbus.embedder.adapters.http.wire_formats import wire_of
from skillbus.embedder.adapters.secrets import Secrets
from skillbus.embedder.domain.errors import ModelUnavailableError

_Key = tuple[str, int]


def _no_deadline() -> float | None:
    return None


class HttpProviders:
    """Use as an async context manager; leaving it closes all connections."""

    def __init__(self, secrets: Secrets, *, remaining: Remaining = _no_deadline, tuning: Tuning | None = None) -> None:
        """`remaining`: seconds until whoever asks now stops waiting."""
        self._secrets = secrets
        self._remaining = remaining
        self._tuning = tuning or Tuning()
        self._providers: dict[_Key, HttpProvider] = {}
        self._users: dict[_Key, int] = {}
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def acquire(self, registered: ProviderRecord) -> HttpProvider:
        """The provider as it is registered, to be released once.

        Raises:
            ModelUnavailableError: its kind has no embeddings, or all is closed.
        """
        if self._tls is None:  # reading the certificates takes some 30 ms
            self._tls = await asyncio.to_thread(httpx.create_ssl_context)
        if self._closed:
            raise ModelUnavailableError(f"provider {registered.name} is closed: the embedder is shutting down")
        key = (registered.name, registered.version)
        if key not in self._providers:
            base_url = registered.base_url or wire_of(registered.kind).base_url
            client = http_client(registered, base_url, self._tls)
            self._providers[key] = HttpProvider(registered, client, self._secrets, self._remaining, self._tuning)
        self._users[key] = self._users.get(key, 0) + 1
        return self._providers[key]

    async def release(self, registered: ProviderRecord) -> None:
        """Closes its connections when nobody else has acquired it."""
        key = (registered.name, registered.version)
        if key not in self._users:
            return
        self._users[key] -= 1
        if self._users[key] == 0:
            del self._users[key]
            await self._providers.pop(key).close()

    async def close(self) -> None:
        """Closing again does nothing."""
        self._closed = True
        self._users.clear()
        while self._providers:
            await self._providers.popitem()[1].close()
