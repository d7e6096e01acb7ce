"""Handlers of the requests about providers and models: decode, one call of the domain, encode."""

from dataclasses import dataclass

from skillbus.common.bus.responder import Route, route
from skillbus.contracts.embedder import registry as contract
from skillbus.contracts.embedder.registry import (
    ModelRecord,
    ModelSelector,
    ModelsListed,
    ProviderRecord,
    ProviderSelector,
    ProvidersListed,
    ProviderTested,
    RegistryEntryDeleted,
    TestProvider,
)
from skillbus.contracts.message import Empty
from skillbus.embedder.domain.model import ModelFactory
from skillbus.embedder.domain.registry.probe import probe_provider
from skillbus.embedder.domain.registry.registry import Registry


@dataclass(frozen=True, slots=True)
class RegistryHandlers:
    """Handlers of the registry's requests."""

    registry: Registry
    factory: ModelFactory

    def list_routes(self) -> list[Route]:
        return [
            route(contract.LIST_PROVIDERS, self.list_providers),
            route(contract.GET_PROVIDER, self.get_provider),
            route(contract.CREATE_PROVIDER, self.registry.create_provider),
            route(contract.UPDATE_PROVIDER, self.registry.update_provider),
            route(contract.DELETE_PROVIDER, self.delete_provider),
            route(contract.TEST_PROVIDER, self.test_provider),
            route(contract.LIST_MODELS, self.list_models),
            route(contract.GET_MODEL, self.get_model),
            route(contract.GET_DEFAULT_MODEL, self.get_default_model),
            route(contract.CREATE_MODEL, self.registry.create_model),
            route(contract.UPDATE_MODEL, self.registry.update_model),
            route(contract.DELETE_MODEL, self.delete_model),
        ]

    async def list_providers(self, _: Empty) -> ProvidersListed:
        return ProvidersListed(providers=await self.registry.list_providers())

    async def get_provider(self, request: ProviderSelector) -> ProviderRecord:
        return await self.registry.get_provider(request.name)

    async def delete_provider(self, request: ProviderSelector) -> RegistryEntryDeleted:
        await self.registry.delete_provider(request.name)
        return RegistryEntryDeleted(name=request.name)

    async def test_provider(self, request: TestProvider) -> ProviderTested:
        return await probe_provider(await self.registry.load_snapshot(), self.factory, request)

    async def list_models(self, _: Empty) -> ModelsListed:
        return ModelsListed(models=await self.registry.list_models())

    async def get_model(self, request: ModelSelector) -> ModelRecord:
        return await self.registry.get_model(request.id)

    async def get_default_model(self, _: Empty) -> ModelRecord:
        return await self.registry.ensure_default()

    async def delete_model(self, request: ModelSelector) -> RegistryEntryDeleted:
        return RegistryEntryDeleted(name=(await self.registry.delete_model(request.id)).name)
