"""Models of real providers, for those who have a key; nothing here runs without one."""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime

import httpx
import pytest

from skillbus.common.outbound.addresses import LOOPBACK, AddressRule
from skillbus.common.outbound.secret_grants import SecretGrants
from skillbus.common.secrets import Secrets
from skillbus.contracts.embedder.registry import ModelRecord, ProviderKind, ProviderRecord
from skillbus.embedder.adapters.http.model import HttpModel
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import AsyncModel
from skillbus.providers.client import ProviderClients

OpenLive = Callable[..., AbstractAsyncContextManager[AsyncModel]]

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def required(variable: str) -> str:
    """The value of a variable; the test is skipped without it."""
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set")
    return value


@pytest.fixture
def open_live() -> OpenLive:
    """Opens a model of a provider; a provider that cannot be reached skips the test."""

    @asynccontextmanager
    async def open_model(
        kind: ProviderKind, name: str, *, base_url: str | None = None, key: str | None = None, **fields: object
    ) -> AsyncGenerator[AsyncModel]:
        dates = {"created_at": _NOW, "updated_at": _NOW, "version": 1}
        reached = {"kind": kind, "base_url": base_url, "api_key": key and f"env:{key}", "timeout_s": 30.0}
        provider = ProviderRecord.model_validate({"name": str(kind), **reached, **dates})
        asked = {"id": "0" * 32, "provider": str(kind), "name": name, "is_default": True, "fingerprint": None}
        model = ModelRecord.model_validate({**asked, **fields, **dates})
        async with ProviderClients(Secrets(SecretGrants.parse("")), AddressRule.parse(LOOPBACK)) as providers:
            made = HttpModel(provider, model, providers)
            await made.open()
            try:
                yield made
            except ModelUnavailableError as error:
                if "cannot be reached" in str(error):
                    pytest.skip(str(error))
                raise
            finally:
                await made.close()

    return open_model


async def ollama_models(base_url: str) -> list[str]:
    """Names of the models that an Ollama has; the test is skipped if it cannot be reached."""
    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            listed = (await client.get(f"{base_url}/api/tags")).raise_for_status().json()
    except httpx.HTTPError as error:
        pytest.skip(f"no Ollama at {base_url}: {error!r}")
    return [str(model["name"]) for model in listed["models"]]
