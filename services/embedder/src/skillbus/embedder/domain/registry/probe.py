"""Probe of a model: asks it for one vector, past every cache, to learn its dimensions or test its provider."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Final

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ModelKind, ModelRecord, ProviderRecord, ProviderTested, TestProvider
from skillbus.embedder.domain.errors import EmbedderError, ModelUnavailableError
from skillbus.embedder.domain.model import ModelFactory
from skillbus.embedder.domain.registry.errors import ProviderUnknownError
from skillbus.embedder.domain.registry.snapshot import RegistrySnapshot

PROBE_TIMEOUT_S: Final = 25.0
"""Less than the 30 s that callers of `create_model` and `test_provider` wait."""
_TEXT: Final = "skillbus"


async def measure_dimensions(
    factory: ModelFactory, provider: ProviderRecord, model: ModelRecord, within_s: float = PROBE_TIMEOUT_S
) -> int:
    """Return the dimensions of the model's vectors. Raises ModelUnavailableError with the reason if it gave none."""
    try:
        async with asyncio.timeout(within_s):
            embedding = factory.build_model(provider, model)
            try:
                await embedding.open()
                rows = (await embedding.embed([_TEXT], TextRole.DOCUMENT)).rows
            finally:
                await embedding.close()
    except TimeoutError as error:
        raise ModelUnavailableError(f"{model.name} gave no vector in time") from error
    except ModelUnavailableError:
        raise
    except EmbedderError as error:
        raise ModelUnavailableError(f"{model.name} gave no vector: {error}") from error
    if rows.ndim != 2 or rows.shape[0] != 1 or not rows.shape[1]:
        raise ModelUnavailableError(f"{model.name} gave an answer of shape {rows.shape} for one text")
    return int(rows.shape[1])


async def probe_provider(snapshot: RegistrySnapshot, factory: ModelFactory, request: TestProvider) -> ProviderTested:
    """Ask a provider for one vector, by the named model or the first embedding model, and report the outcome.

    Raises ProviderUnknownError.
    """
    provider = snapshot.providers.get(request.name)
    if provider is None:
        raise ProviderUnknownError(request.name)
    model = _select_model(snapshot, request)
    if model is None:
        advice = f"provider {provider.name} has no embedding models, and this test asks for a vector; name one to try"
        return ProviderTested(ok=False, model=None, took_ms=0.0, error=advice)
    if model.kind is ModelKind.CHAT:
        advice = f"{model.name} is a chat model, and this test asks for a vector; name an embedding model"
        return ProviderTested(ok=False, model=model.name, took_ms=0.0, error=advice)
    started = time.perf_counter()
    dimensions: int | None = None
    reason: str | None = None
    try:
        dimensions = await measure_dimensions(factory, provider, model)
    except ModelUnavailableError as error:
        reason = str(error)
    took_ms = round((time.perf_counter() - started) * 1e3, 3)
    return ProviderTested(ok=reason is None, model=model.name, dimensions=dimensions, took_ms=took_ms, error=reason)


def _select_model(snapshot: RegistrySnapshot, request: TestProvider) -> ModelRecord | None:
    """Return the record to test with; a model that is not registered gets a temporary one."""
    models = [one.model for one in snapshot.models if one.provider.name == request.name]
    if request.model is None:
        return next((model for model in models if model.kind is ModelKind.EMBEDDING), None)
    known = next((model for model in models if model.name == request.model), None)
    now = datetime.now(UTC)
    return known or ModelRecord(
        id="0" * 32,
        provider=request.name,
        name=request.model,
        is_default=False,
        fingerprint=None,
        version=0,
        created_at=now,
        updated_at=now,
    )
