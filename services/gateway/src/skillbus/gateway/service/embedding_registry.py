"""The registry of providers and their models."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Path, Response

from skillbus.contracts.agent.model_test import TEST_CHAT_MODEL, TestChatModel
from skillbus.contracts.embedder.registry import (
    CREATE_MODEL,
    CREATE_PROVIDER,
    DELETE_MODEL,
    DELETE_PROVIDER,
    GET_DEFAULT_MODEL,
    GET_MODEL,
    GET_PROVIDER,
    LIST_MODELS,
    LIST_PROVIDERS,
    TEST_PROVIDER,
    UPDATE_MODEL,
    UPDATE_PROVIDER,
    CreateModel,
    CreateProvider,
    ModelChanges,
    ModelKind,
    ModelName,
    ModelRecord,
    ModelSelector,
    ModelsListed,
    ProviderChanges,
    ProviderName,
    ProviderRecord,
    ProviderSelector,
    ProvidersListed,
    ProviderTested,
    TestProvider,
    UpdateModel,
    UpdateProvider,
)
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.http import ModelTested
from skillbus.contracts.message import Empty, Message
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import DocumentedRouter, ModelInPath

_PROVIDERS: Final = "/api/embedding/providers"
_PROVIDER: Final = f"{_PROVIDERS}/{{name}}"
_MODELS: Final = "/api/embedding/models"
_MODEL: Final = f"{_MODELS}/{{id:path}}"
"""Names of models contain slashes, and so does `provider/name`."""
ProviderInPath = Annotated[ProviderName, Path(description="Name of the provider.")]


class ProviderTestBody(Message):
    """Model for a provider test."""

    model: ModelName | None = None
    """Name of any embedding model of the provider. Absent means the first registered one."""


@dataclass(frozen=True, slots=True)
class EmbeddingRegistryRoutes:
    """Handlers of providers and models."""

    caller: BusCaller

    async def list_providers(self) -> ProvidersListed:
        """List all providers, ordered by name. Replies hold references to keys, never keys."""
        return await self.caller.call(LIST_PROVIDERS, Empty())

    async def create_provider(self, body: CreateProvider, response: Response) -> ProviderRecord:
        """Register a provider. `api_key` is a reference, `env:NAME` or `file:PATH` on the server, never the key."""
        created = await self.caller.call(CREATE_PROVIDER, body)
        response.headers["Location"] = f"{_PROVIDERS}/{created.name}"
        return created

    async def get_provider(self, name: ProviderInPath) -> ProviderRecord:
        """Return one provider."""
        return await self.caller.call(GET_PROVIDER, ProviderSelector(name=name))

    async def update_provider(self, name: ProviderInPath, body: ProviderChanges) -> ProviderRecord:
        """Change a provider. Absent fields stay, an empty text clears. The change applies to the next request."""
        changes = UpdateProvider.model_validate({**body.model_dump(exclude_unset=True), "name": name})
        return await self.caller.call(UPDATE_PROVIDER, changes)

    async def delete_provider(self, name: ProviderInPath) -> None:
        """Delete a provider that has no models."""
        await self.caller.call(DELETE_PROVIDER, ProviderSelector(name=name))

    async def test_provider(self, name: ProviderInPath, body: ProviderTestBody | None = None) -> ProviderTested:
        """Test a provider by asking it for one vector, bypassing every cache. `ok` and `error` hold the result."""
        request = TestProvider(name=name, model=body and body.model)
        return await self.caller.call(TEST_PROVIDER, request)

    async def list_models(self) -> ModelsListed:
        """List all models: embedding models, then chat models, of each kind the default first."""
        return await self.caller.call(LIST_MODELS, Empty())

    async def create_model(self, body: CreateModel, response: Response) -> ModelRecord:
        """Register a model of a provider: one for embeddings, or one for chats with `kind` `chat`.

        An embedding model without `dimensions` is asked for one vector. The first chat model becomes the default one.
        """
        created = await self.caller.call(CREATE_MODEL, body)
        response.headers["Location"] = f"{_MODELS}/{created.id}"
        return created

    async def get_default_model(self) -> ModelRecord:
        """Return the default embedding model, which embeds texts when a request names no model."""
        return await self.caller.call(GET_DEFAULT_MODEL, Empty())

    async def get_model(self, id: ModelInPath) -> ModelRecord:  # noqa: A002 (the name in the path)
        """Return one model."""
        return await self.caller.call(GET_MODEL, ModelSelector(id=id))

    async def update_model(self, id: ModelInPath, body: ModelChanges) -> ModelRecord:  # noqa: A002
        """Change a model. Absent fields stay, an empty text clears. `is_default: true` makes it the default model.

        There is one default of each kind. A new default embedding model starts the switch of every index to its
        vectors. `GET /api/indexes` shows the progress.
        """
        changes = UpdateModel.model_validate({**body.model_dump(exclude_unset=True), "id": id})
        return await self.caller.call(UPDATE_MODEL, changes)

    async def test_model(self, id: ModelInPath) -> ModelTested:  # noqa: A002
        """Test a model by asking it for one vector or one short answer. `ok` and `error` hold the result.

        A new connection to the provider is used, and no cache. The call costs what the provider takes for it.
        """
        model = await self.caller.call(GET_MODEL, ModelSelector(id=id))
        if model.kind is ModelKind.CHAT:
            answered = await self.caller.call(TEST_CHAT_MODEL, TestChatModel(id=f"{model.provider}/{model.name}"))
            ok, took_ms, error, dimensions = answered.ok, answered.took_ms, answered.error, None
        else:
            tested = await self.caller.call(TEST_PROVIDER, TestProvider(name=model.provider, model=model.name))
            ok, took_ms, error, dimensions = tested.ok, tested.took_ms, tested.error, tested.dimensions
        return ModelTested(
            ok=ok,
            provider=model.provider,
            model=model.name,
            kind=model.kind,
            dimensions=dimensions,
            took_ms=took_ms,
            error=error,
        )

    async def delete_model(self, id: ModelInPath) -> None:  # noqa: A002
        """Delete a model that is not the default. The last chat model can be deleted, too."""
        await self.caller.call(DELETE_MODEL, ModelSelector(id=id))


def add_embedding_registry_routes(router: DocumentedRouter, routes: EmbeddingRegistryRoutes) -> None:
    """Add the routes of providers and models. `default` precedes names: address a model of that name by its id."""
    system = router.for_system()
    change: dict[str, object] = {"timeout_s": 5, "enabled": True}
    test: dict[str, object] = {"model": "text-embedding-3-small"}
    system.add("GET", _PROVIDERS, Role.ADMIN, routes.list_providers, LIST_PROVIDERS.errors)
    system.add(
        "POST",
        _PROVIDERS,
        Role.ADMIN,
        routes.create_provider,
        CREATE_PROVIDER.errors,
        status=201,
        example=CREATE_PROVIDER.example,
    )
    system.add("GET", _PROVIDER, Role.ADMIN, routes.get_provider, GET_PROVIDER.errors)
    system.add("PATCH", _PROVIDER, Role.ADMIN, routes.update_provider, UPDATE_PROVIDER.errors, example=change)
    system.add("DELETE", _PROVIDER, Role.ADMIN, routes.delete_provider, DELETE_PROVIDER.errors, status=204)
    system.add("POST", f"{_PROVIDER}/test", Role.ADMIN, routes.test_provider, TEST_PROVIDER.errors, example=test)
    router.add("GET", _MODELS, Role.READER, routes.list_models, LIST_MODELS.errors)
    system.add(
        "POST", _MODELS, Role.ADMIN, routes.create_model, CREATE_MODEL.errors, status=201, example=CREATE_MODEL.example
    )
    router.add("GET", f"{_MODELS}/default", Role.READER, routes.get_default_model, GET_DEFAULT_MODEL.errors)
    router.add("GET", _MODEL, Role.READER, routes.get_model, GET_MODEL.errors)
    tests = tuple(dict.fromkeys((*GET_MODEL.errors, *TEST_PROVIDER.errors, *TEST_CHAT_MODEL.errors)))
    system.add("POST", f"{_MODEL}/test", Role.ADMIN, routes.test_model, tests)
    system.add("PATCH", _MODEL, Role.ADMIN, routes.update_model, UPDATE_MODEL.errors, example={"is_default": True})
    system.add("DELETE", _MODEL, Role.ADMIN, routes.delete_model, DELETE_MODEL.errors, status=204)
