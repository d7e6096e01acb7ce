"""A typed client of what the HTTP API has on providers, models and indexes."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import httpx

from skillbus.cli.exchange import exchange, parsed
from skillbus.contracts.index_switch import IndexesListed, IndexState
from skillbus.contracts.registry import (
    CreateModel,
    CreateProvider,
    Model,
    ModelsListed,
    Provider,
    ProvidersListed,
    ProviderTested,
    UpdateModel,
    UpdateProvider,
)

_PROVIDERS: Final = "/api/embedding/providers"
_MODELS: Final = "/api/embedding/models"


@dataclass(frozen=True, slots=True)
class ModelsClient:
    """Each method is one request; all raise the errors of `skillbus.cli.errors`."""

    http: httpx.AsyncClient

    async def providers(self) -> ProvidersListed:
        """All providers, by name."""
        return parsed(ProvidersListed, await exchange(self.http, "GET", _PROVIDERS))

    async def add_provider(self, new: CreateProvider) -> Provider:
        """Add a provider."""
        body = new.model_dump(mode="json", exclude_unset=True)
        return parsed(Provider, await exchange(self.http, "POST", _PROVIDERS, json=body))

    async def update_provider(self, changes: UpdateProvider) -> Provider:
        """Change what is set."""
        body = changes.model_dump(mode="json", exclude_unset=True, exclude={"name"})
        return parsed(Provider, await exchange(self.http, "PATCH", _provider(changes.name), json=body))

    async def remove_provider(self, name: str) -> None:
        """Remove a provider that has no models."""
        await exchange(self.http, "DELETE", _provider(name))

    async def test_provider(self, name: str, model: str | None) -> ProviderTested:
        """Ask a provider for one vector."""
        body = {} if model is None else {"model": model}
        return parsed(ProviderTested, await exchange(self.http, "POST", f"{_provider(name)}/test", json=body))

    async def models(self) -> ModelsListed:
        """All models: the default first, then in the order in which they are tried."""
        return parsed(ModelsListed, await exchange(self.http, "GET", _MODELS))

    async def default_model(self) -> Model:
        """The default model."""
        return parsed(Model, await exchange(self.http, "GET", f"{_MODELS}/default"))

    async def add_model(self, new: CreateModel) -> Model:
        """Add a model."""
        body = new.model_dump(mode="json", exclude_unset=True)
        return parsed(Model, await exchange(self.http, "POST", _MODELS, json=body))

    async def update_model(self, changes: UpdateModel) -> Model:
        """Change what is set."""
        body = changes.model_dump(mode="json", exclude_unset=True, exclude={"id"})
        return parsed(Model, await exchange(self.http, "PATCH", _model(changes.id), json=body))

    async def remove_model(self, name: str) -> None:
        """Remove a model that is not the default."""
        await exchange(self.http, "DELETE", _model(name))

    async def indexes(self) -> IndexesListed:
        """Every index."""
        return parsed(IndexesListed, await exchange(self.http, "GET", "/api/indexes"))

    async def switch(self, alias: str) -> IndexState:
        """Take an index to the default model."""
        return parsed(IndexState, await exchange(self.http, "POST", f"{_index(alias)}/switch"))

    async def roll_back(self, alias: str) -> IndexState:
        """Go back to what was searched before the last switch."""
        return parsed(IndexState, await exchange(self.http, "POST", f"{_index(alias)}/rollback"))


def _provider(name: str) -> str:
    return f"{_PROVIDERS}/{quote(name, safe='')}"


def _model(name: str) -> str:
    return f"{_MODELS}/{quote(name, safe='/')}"


def _index(alias: str) -> str:
    return f"/api/indexes/{quote(alias, safe='')}"
