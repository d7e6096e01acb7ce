"""Asking a model for one vector, past every cache: to learn its dimensions, or whether its provider answers."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Final

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord, ProviderTested, TestProvider
from skillbus.embedder.domain.errors import EmbedderError, ModelUnavailableError
from skillbus.embedder.domain.model import ModelFactory
from skillbus.embedder.domain.registry.errors import ProviderUnknownError
from skillbus.embedder.domain.registry.snapshot import Registered

WITHIN_S: Final = 25.0
"""Below the 30 s that callers of `create_model` and `test_provider` wait."""
_TEXT: Final = "skillbus"


async def width_of(
    factory: ModelFactory, provider: ProviderRecord, model: ModelRecord, within_s: float = WITHIN_S
) -> int:
    """How many dimensions the model's vectors have.

    Raises:
        ModelUnavailableError: it gave no vector; the message says why.
    """
    try:
        async with asyncio.timeout(within_s):
            return await _asked(factory, provider, model)
    except TimeoutError as error:
        raise ModelUnavailableError(f"{model.name} gave no vector in time") from error
    except ModelUnavailableError:
        raise
    except EmbedderError as error:
        raise ModelUnavailableError(f"{model.name} gave no vector: {error}") from error


async def _asked(factory: ModelFactory, provider: ProviderRecord, model: ModelRecord) -> int:
    embedding = factory.make(provider, model)
    try:
        await embedding.open()
        rows = (await embedding.embed([_TEXT], TextRole.DOCUMENT)).rows
    finally:
        await embedding.close()
    if rows.ndim != 2 or rows.shape[0] != 1 or not rows.shape[1]:
        raise ModelUnavailableError(f"{model.name} gave an answer of shape {rows.shape} for one text")
    return int(rows.shape[1])


async def try_provider(
    registered: Registered, factory: ModelFactory, request: TestProvider, within_s: float = WITHIN_S
) -> ProviderTested:
    """What came of asking the provider for one vector: by the model that is named, or the first that it has.

    Raises:
        ProviderUnknownError: there is no such provider.
    """
    provider = registered.providers.get(request.name)
    if provider is None:
        raise ProviderUnknownError(request.name)
    model = _model_to_ask(registered, request)
    if model is None:
        advice = f"provider {provider.name} has no models yet; name one that it may have"
        return ProviderTested(ok=False, model=None, took_ms=0.0, error=advice)
    began = time.perf_counter()
    dimensions: int | None = None
    reason: str | None = None
    try:
        dimensions = await width_of(factory, provider, model, within_s)
    except ModelUnavailableError as error:
        reason = str(error)
    took_ms = round((time.perf_counter() - began) * 1e3, 3)
    return ProviderTested(ok=reason is None, model=model.name, dimensions=dimensions, took_ms=took_ms, error=reason)


def _model_to_ask(registered: Registered, request: TestProvider) -> ModelRecord | None:
    models = [one.model for one in registered.models if one.provider.name == request.name]
    if request.model is None:
        return models[0] if models else None
    known = next((model for model in models if model.name == request.model), None)
    return known or _not_registered(request.name, request.model)


def _not_registered(provider: str, name: str) -> ModelRecord:
    now = datetime.now(UTC)
    return ModelRecord(
        id="0" * 32,
        provider=provider,
        name=name,
        is_default=False,
        fingerprint=None,
        version=0,
        created_at=now,
        updated_at=now,
    )
