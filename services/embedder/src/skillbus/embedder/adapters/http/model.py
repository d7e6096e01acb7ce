"""A model of a provider over HTTP."""

import asyncio
import json
from collections.abc import Sequence
from typing import Final

import httpx
import numpy as np

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
from skillbus.embedder.adapters.http.exchange import Question
from skillbus.embedder.adapters.http.provider import REPLY_BYTES, HttpProvider
from skillbus.embedder.adapters.http.providers import HttpProviders
from skillbus.embedder.adapters.http.replies import unit_rows
from skillbus.embedder.adapters.http.wire_formats import Wire, wire_of
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import EmbeddingModel, ModelSpec, Rows

_WIDEST: Final = 65_536
"""As the contract has it, of a model whose dimensions are not known yet."""
_ENVELOPE_BYTES: Final = 256 * 1024
"""Of a reply, beside its vectors: room for two of 4096 dimensions, so that it is told when others are registered."""
_ITEM_BYTES: Final = 256
"""Around one vector."""
_NUMBER_BYTES: Final = 32  # 24 of the longest float64, and a comma, a line break and some indent, which OpenAI sends


def http_spec(provider: ProviderRecord, model: ModelRecord) -> ModelSpec | None:
    """What is known of a model without asking for it; None while its dimensions are unknown.

    Raises:
        ModelUnavailableError: that kind of provider has no embeddings.
    """
    wire = wire_of(provider.kind)
    return None if model.dimensions is None else _spec(wire, provider, model)


def http_model(provider: ProviderRecord, model: ModelRecord, providers: HttpProviders) -> EmbeddingModel:
    """The model; nobody is asked yet. Without `model.dimensions` its spec has `dim` 0, and any width is taken.

    Raises:
        ModelUnavailableError: that kind of provider has no embeddings, or its address is none.
    """
    return _HttpModel(provider, model, wire_of(provider.kind), providers)


class _HttpModel:
    def __init__(self, provider: ProviderRecord, model: ModelRecord, wire: Wire, providers: HttpProviders) -> None:
        self._registered = provider
        self._model = model
        self._wire = wire
        self._providers = providers
        self._url = _url(provider, model, wire)
        self._provider: HttpProvider | None = None
        self._asking: set[asyncio.Task[Rows]] = set()
        self.spec: Final = _spec(wire, provider, model)

    async def open(self) -> None:
        if self._provider is None:
            self._provider = await self._providers.acquire(self._registered)

    async def embed(self, texts: Sequence[str], role: TextRole) -> Rows:
        if self._provider is None:
            raise self._not_open()
        if not texts:
            return Rows(np.empty((0, self.spec.dim), np.float32), 0)
        asking = asyncio.create_task(self._ask(self._provider, texts, role), name=f"ask-{self.spec.name}")
        self._asking.add(asking)
        try:
            return await asking
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._provider is None and task is not None and not task.cancelling():
                raise self._not_open() from None
            raise
        finally:
            self._asking.discard(asking)

    async def close(self) -> None:
        if self._provider is None:
            return
        self._provider = None
        running = set(self._asking)
        for asking in running:
            asking.cancel()
        try:
            if running:
                await asyncio.wait(running)
        finally:
            await self._providers.release(self._registered)

    async def _ask(self, provider: HttpProvider, texts: Sequence[str], role: TextRole) -> Rows:
        prefix = self._model.query_prefix if role is TextRole.QUERY else self._model.document_prefix
        dimensions = self._model.dimensions if self._model.request_dimensions else None
        body = self._wire.body(self._model.name, [prefix + text for text in texts], dimensions)
        question = Question(self._model.name, self._url, body, _reply_bytes(len(texts), self.spec.dim))
        return await provider.ask(question, lambda reply: unit_rows(self._wire.read(reply), len(texts), self.spec.dim))

    def _not_open(self) -> ModelUnavailableError:
        return ModelUnavailableError(f"model {self.spec.name} of provider {self.spec.provider} is not open; ask again")


def _spec(wire: Wire, provider: ProviderRecord, model: ModelRecord) -> ModelSpec:
    return ModelSpec(
        provider=provider.name,
        name=model.name,
        revision=_revision(wire, provider, model),
        preprocessing=_preprocessing(model),
        dim=model.dimensions or 0,
        max_chars=model.max_chars or wire.max_chars,
        batch_tokens=wire.batch_tokens,
        padded=False,
        batch_texts=_batch_texts(provider.max_batch_texts, wire.batch_texts, model.dimensions),
        slots=provider.max_concurrency,
    )


def _revision(wire: Wire, provider: ProviderRecord, model: ModelRecord) -> str:
    """A provider does not tell when it exchanges the weights of a name; what else its vectors depend on is here.

    Not its address: it may move, and have replicas.
    """
    shortened = f", {model.dimensions} of its dimensions" if model.request_dimensions else ""
    return f"{provider.kind} {provider.name}{model.api_path or wire.path}{shortened}"


def _preprocessing(model: ModelRecord) -> str:
    prefixes = (("query", model.query_prefix), ("document", model.document_prefix))
    return ", ".join(["nfkc", *(f"{role} {json.dumps(prefix)}" for role, prefix in prefixes if prefix)])


def _batch_texts(registered: int | None, usual: int, dimensions: int | None) -> int:
    """So many texts that the largest reply stays within what is read of one.

    Reading a reply holds the interpreter, some 5 ms a MiB, and with it every query: without a number in the registry a
    reply has a quarter of what is read.
    """
    limit, reply_bytes = (usual, REPLY_BYTES // 4) if registered is None else (registered, REPLY_BYTES)
    return limit if dimensions is None else max(1, min(limit, reply_bytes // (dimensions * _NUMBER_BYTES)))


def _reply_bytes(count: int, dim: int) -> int:
    return min(REPLY_BYTES, _ENVELOPE_BYTES + count * (_ITEM_BYTES + (dim or _WIDEST) * _NUMBER_BYTES))


def _url(provider: ProviderRecord, model: ModelRecord, wire: Wire) -> httpx.URL:
    address = (provider.base_url or wire.base_url) + (model.api_path or wire.path)
    try:
        url = httpx.URL(address)
        usable = bool(url.host) and (url.port is None or 0 < url.port < 65_536)
    except (httpx.InvalidURL, ValueError):  # the latter of host names that IDNA does not know
        usable = False
    if not usable:
        raise ModelUnavailableError(f"the address of provider {provider.name} is none; correct its base_url")
    return url
