"""Clients of all providers in use: one per version of a provider's record, closed when its last user releases it."""

import asyncio
import ssl
from types import TracebackType
from typing import Self

import httpx

from skillbus.common.secrets import Secrets
from skillbus.contracts.embedder.registry import ProviderRecord
from skillbus.providers.client import ClientTuning, ProviderClient, open_http_client
from skillbus.providers.errors import ProviderFailedError


class ProviderClients:
    """Async context manager; leaving it closes all connections."""

    def __init__(self, secrets: Secrets, tuning: ClientTuning | None = None) -> None:
        self._secrets = secrets
        self._tuning = tuning or ClientTuning()
        self._clients: dict[tuple[str, int], ProviderClient] = {}
        self._users: dict[tuple[str, int], int] = {}
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def acquire_client(self, provider: ProviderRecord, base_url: str) -> ProviderClient:
        """Return the client of this version of the record. Call `release_client` once for each call.

        Args:
            provider: Record of the provider.
            base_url: Its address; the record may leave it to a default of its kind.

        Raises:
            ProviderFailedError: all clients were closed.
        """
        if self._tls is None:  # loading the certificates takes about 30 ms
            self._tls = await asyncio.to_thread(httpx.create_ssl_context)
        if self._closed:
            raise ProviderFailedError(provider.name, "is closed: the service is shutting down")
        key = (provider.name, provider.version)
        if key not in self._clients:
            http = open_http_client(provider, base_url, self._tls)
            self._clients[key] = ProviderClient(provider, http, self._secrets, self._tuning)
        self._users[key] = self._users.get(key, 0) + 1
        return self._clients[key]

    async def release_client(self, provider: ProviderRecord) -> None:
        """Release a client. The last release closes its connections."""
        key = (provider.name, provider.version)
        if key not in self._users:
            return
        self._users[key] -= 1
        if self._users[key] == 0:
            del self._users[key]
            await self._clients.pop(key).close()

    async def close(self) -> None:
        """Close all clients. Further calls do nothing."""
        self._closed = True
        self._users.clear()
        while self._clients:
            await self._clients.popitem()[1].close()
