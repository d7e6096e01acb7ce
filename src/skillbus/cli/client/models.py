"""A typed client of what the HTTP API has on providers, models and indexes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import httpx

from skillbus.cli.client.connection import exchange, parsed, strange
from skillbus.cli.client.replies import Embeddings
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import (
    CreateModel,
    CreateProvider,
    ModelRecord,
    ModelsListed,
    ProviderRecord,
    ProvidersListed,
    ProviderTested,
    UpdateModel,
    UpdateProvider,
)
from skillbus.contracts.indexer.index_switch import IndexesListed, IndexState

_PROVIDERS: Final = "/api/embedding/providers"
_MODELS: Final = "/api/embedding/models"
_EMBEDDING_S: Final = 300.0
"""A provider may be slow, and others may be before us."""


@dataclass(frozen=True, slots=True)
class ModelsClient:
    """Each method is one request; all raise the errors of `skillbus.cli.errors`."""

    http: httpx.AsyncClient

    async def providers(self) -> ProvidersListed:
        """All providers, by name."""
        return parsed(ProvidersListed, await exchange(self.http, "GET", _PROVIDERS))

    async def add_provider(self, new: CreateProvider) -> ProviderRecord:
        """Add a provider."""
        body = new.model_dump(mode="json", exclude_unset=True)
        return parsed(ProviderRecord, await exchange(self.http, "POST", _PROVIDERS, json=body))

    async def update_provider(self, changes: UpdateProvider) -> ProviderRecord:
        """Change what is set."""
        body = changes.model_dump(mode="json", exclude_unset=True, exclude={"name"})
        return parsed(ProviderRecord, await exchange(self.http, "PATCH", _provider(changes.name), json=body))

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

    async def default_model(self) -> ModelRecord:
        """The default model."""
        return parsed(ModelRecord, await exchange(self.http, "GET", f"{_MODELS}/default"))

    async def model(self, name: str) -> ModelRecord:
        """One model, by its id, its name, or `provider/name`."""
        return parsed(ModelRecord, await exchange(self.http, "GET", _model(name)))

    async def embed(self, model: str, texts: Sequence[str], role: TextRole) -> list[bytes]:
        """A vector for each text, by that model and no other: little-endian float32 numbers."""
        body: dict[str, object] = {"model": model, "input": list(texts), "input_type": role.value}
        body["encoding_format"] = "base64"
        response = await exchange(self.http, "POST", "/v1/embeddings", json=body, wait_s=_EMBEDDING_S)
        found = parsed(Embeddings, response).data
        if [it.index for it in found] != list(range(len(texts))):
            raise strange(response, f"it sent {len(found)} vectors for {len(texts)} texts, or in another order")
        return [it.embedding for it in found]

    async def add_model(self, new: CreateModel) -> ModelRecord:
        """Add a model."""
        body = new.model_dump(mode="json", exclude_unset=True)
        return parsed(ModelRecord, await exchange(self.http, "POST", _MODELS, json=body))

    async def update_model(self, changes: UpdateModel) -> ModelRecord:
        """Change what is set."""
        body = changes.model_dump(mode="json", exclude_unset=True, exclude={"id"})
        return parsed(ModelRecord, await exchange(self.http, "PATCH", _model(changes.id), json=body))

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
