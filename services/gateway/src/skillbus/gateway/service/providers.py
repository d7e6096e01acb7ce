"""Providers of embedding models."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Path, Response

from skillbus.contracts.embedder.registry import (
    CREATE_PROVIDER,
    DELETE_PROVIDER,
    GET_PROVIDER,
    LIST_PROVIDERS,
    TEST_PROVIDER,
    UPDATE_PROVIDER,
    CreateProvider,
    ModelName,
    ProviderChanges,
    ProviderName,
    ProviderRecord,
    ProviderSelector,
    ProvidersListed,
    ProviderTested,
    TestProvider,
    UpdateProvider,
)
from skillbus.contracts.message import Empty, Message
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import WITH_BODY, DocumentedRouter

_PROVIDERS: Final = "/api/embedding/providers"
_PROVIDER: Final = f"{_PROVIDERS}/{{name}}"
ProviderInPath = Annotated[ProviderName, Path()]


class ProviderTest(Message):
    """With which model a provider is tested."""

    model: ModelName | None = None
    """The name of any model that it may have; the first that is registered for it if absent."""


@dataclass(frozen=True, slots=True)
class ProviderRoutes:
    """The handlers, over what they need."""

    caller: BusCaller

    async def list_providers(self) -> ProvidersListed:
        """All providers, by name. Keys are references: no key is ever in an answer."""
        return await self.caller.call(LIST_PROVIDERS, Empty())

    async def create_provider(self, body: CreateProvider, response: Response) -> ProviderRecord:
        """Add a provider. `api_key` says where its key is, `env:NAME` or `file:PATH` of the embedder; never the key."""
        created = await self.caller.call(CREATE_PROVIDER, body)
        response.headers["Location"] = f"{_PROVIDERS}/{created.name}"
        return created

    async def get_provider(self, name: ProviderInPath) -> ProviderRecord:
        """One provider."""
        return await self.caller.call(GET_PROVIDER, ProviderSelector(name=name))

    async def update_provider(self, name: ProviderInPath, body: ProviderChanges) -> ProviderRecord:
        """Change a provider: what is absent stays, an empty text clears. It holds from the next text on."""
        changes = UpdateProvider.model_validate({**body.model_dump(exclude_unset=True), "name": name})
        return await self.caller.call(UPDATE_PROVIDER, changes)

    async def delete_provider(self, name: ProviderInPath) -> None:
        """Remove a provider that has no models."""
        await self.caller.call(DELETE_PROVIDER, ProviderSelector(name=name))

    async def test_provider(self, name: ProviderInPath, body: ProviderTest | None = None) -> ProviderTested:
        """Ask a provider for one vector, past every cache. That it fails is an answer too: see `ok` and `error`."""
        request = TestProvider(name=name, model=body and body.model)
        return await self.caller.call(TEST_PROVIDER, request)


def add_provider_routes(to: DocumentedRouter, routes: ProviderRoutes) -> None:
    """Put them under their paths."""
    created, changed = CREATE_PROVIDER, UPDATE_PROVIDER
    create_errors, change_errors = (*created.errors, *WITH_BODY), (*changed.errors, *WITH_BODY)
    change: dict[str, object] = {"timeout_s": 5, "enabled": True}
    to.add("GET", _PROVIDERS, routes.list_providers, LIST_PROVIDERS.errors)
    to.add("POST", _PROVIDERS, routes.create_provider, create_errors, status=201, example=created.example)
    to.add("GET", _PROVIDER, routes.get_provider, GET_PROVIDER.errors)
    to.add("PATCH", _PROVIDER, routes.update_provider, change_errors, example=change)
    to.add("DELETE", _PROVIDER, routes.delete_provider, DELETE_PROVIDER.errors, status=204)
    test_errors = (*TEST_PROVIDER.errors, *WITH_BODY)
    to.add("POST", f"{_PROVIDER}/test", routes.test_provider, test_errors, example={"model": "text-embedding-3-small"})
