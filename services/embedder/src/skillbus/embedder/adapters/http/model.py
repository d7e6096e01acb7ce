"""Embedding model of a provider that is reached over HTTP."""

import asyncio
import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import httpx
import numpy as np

from skillbus.common.secrets import SecretUnreadableError
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
from skillbus.embedder.adapters.http.wire_formats import build_rows, select_wire_format
from skillbus.embedder.domain.errors import ModelUnavailableError, TextsRefusedError
from skillbus.embedder.domain.model import EmbeddedRows, ModelSpec
from skillbus.providers.client import EMBEDDINGS_AT_ONCE, MAX_REPLY_BYTES, ProviderClient, ProviderClients
from skillbus.providers.errors import InputRefusedError, ProviderError
from skillbus.providers.exchange import ProviderRequest

_WIDEST: Final = 65_536
"""Most dimensions that the contract allows, assumed while a model's are unknown."""
_ENVELOPE_BYTES: Final = 256 * 1024
"""Bytes of a reply around its vectors. Two of 4096 dimensions fit too, so that wrong dimensions are reported."""
_ITEM_BYTES: Final = 256
"""Bytes around one vector."""
_NUMBER_BYTES: Final = 32  # 24 of the longest float64, plus a comma, a line break and indent, which OpenAI sends


class HttpModel:
    """Implementation of `AsyncModel`. Without `model.dimensions` its spec has `dim` 0, and it accepts any width."""

    def __init__(self, provider: ProviderRecord, model: ModelRecord, clients: ProviderClients) -> None:
        """Raise ModelUnavailableError if this kind of provider has no embeddings, or its address is invalid."""
        self._provider = provider
        self._model = model
        self._wire = wire = select_wire_format(provider.kind)
        self._clients = clients
        base_url = provider.base_url or wire.base_url
        self._url = _parse_url(provider.name, base_url + (model.api_path or wire.path))
        self._client: ProviderClient | None = None
        self._running: set[asyncio.Task[EmbeddedRows]] = set()
        self.spec: Final = build_http_spec(provider, model)

    async def open(self) -> None:
        if self._client is None:
            with _translate_errors():
                self._client = await self._clients.acquire_client(self._provider)

    async def embed(self, texts: Sequence[str], role: TextRole) -> EmbeddedRows:
        if self._client is None:
            raise self._not_open()
        if not texts:
            return EmbeddedRows(np.empty((0, self.spec.dim), np.float32), 0)
        running = asyncio.create_task(self._post(self._client, texts, role), name=f"embed-{self.spec.name}")
        self._running.add(running)
        try:
            return await running
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._client is None and task is not None and not task.cancelling():
                raise self._not_open() from None
            raise
        finally:
            self._running.discard(running)

    async def close(self) -> None:
        if self._client is None:
            return
        self._client = None
        running = set(self._running)
        for task in running:
            task.cancel()
        try:
            if running:
                await asyncio.wait(running)
        finally:
            await self._clients.release_client(self._provider)

    async def _post(self, client: ProviderClient, texts: Sequence[str], role: TextRole) -> EmbeddedRows:
        prefix = self._model.query_prefix if role is TextRole.QUERY else self._model.document_prefix
        dimensions = self._model.dimensions if self._model.request_dimensions else None
        body = self._wire.build_body(self._model.name, [prefix + text for text in texts], dimensions)
        count, dim = len(texts), self.spec.dim
        reply_bytes = min(MAX_REPLY_BYTES, _ENVELOPE_BYTES + count * (_ITEM_BYTES + (dim or _WIDEST) * _NUMBER_BYTES))
        request = ProviderRequest(self._model.name, self._url, body, reply_bytes)
        with _translate_errors():
            return await client.post(request, lambda reply: build_rows(self._wire.parse_vectors(reply), count, dim))

    def _not_open(self) -> ModelUnavailableError:
        return ModelUnavailableError(f"model {self.spec.name} of provider {self.spec.provider} is not open; try again")


@contextmanager
def _translate_errors() -> Generator[None]:
    """Translate errors of the provider client to the domain's."""
    try:
        yield
    except InputRefusedError as error:
        raise TextsRefusedError(str(error)) from error
    except (ProviderError, SecretUnreadableError) as error:
        raise ModelUnavailableError(str(error)) from error


def build_http_spec(provider: ProviderRecord, model: ModelRecord) -> ModelSpec:
    """Build the spec; `dim` is 0 while unknown. Raises ModelUnavailableError if this provider has no embeddings."""
    wire = select_wire_format(provider.kind)
    # A provider does not say when it replaces the weights behind a name. The revision holds everything else that the
    # vectors depend on, but not the address: a provider may move, and have replicas.
    shortened = f", {model.dimensions} of its dimensions" if model.request_dimensions else ""
    # The largest reply of a batch stays within `MAX_REPLY_BYTES`, or a quarter of it without a number in the registry:
    # parsing holds the GIL, about 5 ms a MiB, and delays every query.
    limit, reply_bytes = provider.max_batch_texts, MAX_REPLY_BYTES
    if limit is None:
        limit, reply_bytes = wire.batch_texts, MAX_REPLY_BYTES // 4
    if model.dimensions is not None:
        limit = max(1, min(limit, reply_bytes // (model.dimensions * _NUMBER_BYTES)))
    prefixes = (("query", model.query_prefix), ("document", model.document_prefix))
    return ModelSpec(
        provider=provider.name,
        name=model.name,
        revision=f"{provider.kind} {provider.name}{model.api_path or wire.path}{shortened}",
        preprocessing=", ".join(["nfkc", *(f"{role} {json.dumps(prefix)}" for role, prefix in prefixes if prefix)]),
        dim=model.dimensions or 0,
        max_chars=model.max_chars or wire.max_chars,
        batch_tokens=wire.batch_tokens,
        padded=False,
        batch_texts=limit,
        slots=provider.max_concurrency or EMBEDDINGS_AT_ONCE,
    )


def _parse_url(provider: str, address: str) -> httpx.URL:
    try:
        url = httpx.URL(address)
        usable = bool(url.host) and (url.port is None or 0 < url.port < 65_536)
    except (httpx.InvalidURL, ValueError):  # the latter for host names that IDNA does not know
        usable = False
    if not usable:
        raise ModelUnavailableError(f"the address of provider {provider} is invalid; correct its base_url")
    return url
