"""Client for providers, models and indexes."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillbus.cli.client.http_api import (
    EMBEDDINGS,
    INDEXES,
    MODELS,
    PROVIDERS,
    build_strange_reply,
    join_path,
    parse_reply,
)
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
from skillbus.contracts.http import OpenAiEmbeddings
from skillbus.contracts.indexer.index_switch import IndexesListed, IndexState

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

_EMBEDDING_S: Final = 300.0
"""Seconds to wait for vectors: the provider may be slow, and other requests may be queued before this one."""


@dataclass(frozen=True, slots=True)
class ModelsClient:
    """Each method is one request. A model is named by its id, its name, or `provider/name`."""

    connection: ApiConnection

    async def list_providers(self) -> ProvidersListed:
        return await self.connection.request(ProvidersListed, "GET", PROVIDERS)

    async def add_provider(self, new: CreateProvider) -> ProviderRecord:
        body = new.model_dump(mode="json", exclude_unset=True)
        return await self.connection.request(ProviderRecord, "POST", PROVIDERS, json=body)

    async def update_provider(self, changes: UpdateProvider) -> ProviderRecord:
        """Change the fields of a provider that are set."""
        body = changes.model_dump(mode="json", exclude_unset=True, exclude={"name"})
        return await self.connection.request(ProviderRecord, "PATCH", join_path(PROVIDERS, changes.name), json=body)

    async def remove_provider(self, name: str) -> None:
        """Remove a provider that has no models."""
        await self.connection.send("DELETE", join_path(PROVIDERS, name))

    async def test_provider(self, name: str, model: str | None) -> ProviderTested:
        """Request one vector from a provider."""
        body = {} if model is None else {"model": model}
        return await self.connection.request(ProviderTested, "POST", join_path(PROVIDERS, name, "test"), json=body)

    async def list_models(self) -> ModelsListed:
        """Return all models: the default first, then by priority."""
        return await self.connection.request(ModelsListed, "GET", MODELS)

    async def get_default_model(self) -> ModelRecord:
        return await self.connection.request(ModelRecord, "GET", f"{MODELS}/default")

    async def get_model(self, name: str) -> ModelRecord:
        return await self.connection.request(ModelRecord, "GET", join_path(MODELS, *name.split("/")))

    async def embed_texts(self, model: str, texts: Sequence[str], role: TextRole) -> list[bytes]:
        """Return one vector for each text as little-endian float32 numbers. No other model is tried."""
        body: dict[str, object] = {"model": model, "input": list(texts), "input_type": role.value}
        body["encoding_format"] = "base64"
        response = await self.connection.send("POST", EMBEDDINGS, json=body, wait_s=_EMBEDDING_S)
        vectors = parse_reply(OpenAiEmbeddings, response.content, response).data
        if [vector.index for vector in vectors] != list(range(len(texts))):
            problem = f"it sent {len(vectors)} vectors for {len(texts)} texts, or in another order"
            raise build_strange_reply(response, problem)
        try:
            return [b64decode(str(vector.embedding), validate=True) for vector in vectors]
        except ValueError as error:
            raise build_strange_reply(response, "its vectors are not in base64") from error

    async def add_model(self, new: CreateModel) -> ModelRecord:
        body = new.model_dump(mode="json", exclude_unset=True)
        return await self.connection.request(ModelRecord, "POST", MODELS, json=body)

    async def update_model(self, changes: UpdateModel) -> ModelRecord:
        """Change the fields of a model that are set."""
        body = changes.model_dump(mode="json", exclude_unset=True, exclude={"id"})
        path = join_path(MODELS, *changes.id.split("/"))
        return await self.connection.request(ModelRecord, "PATCH", path, json=body)

    async def remove_model(self, name: str) -> None:
        """Remove a model that is not the default."""
        await self.connection.send("DELETE", join_path(MODELS, *name.split("/")))

    async def list_indexes(self) -> IndexesListed:
        """Return every index with its last switch."""
        return await self.connection.request(IndexesListed, "GET", INDEXES)

    async def switch_index(self, alias: str) -> IndexState:
        """Start to move an index to the default model."""
        return await self.connection.request(IndexState, "POST", join_path(INDEXES, alias, "switch"))

    async def roll_back_index(self, alias: str) -> IndexState:
        """Undo the last switch of an index, or cancel one that is running."""
        return await self.connection.request(IndexState, "POST", join_path(INDEXES, alias, "rollback"))
