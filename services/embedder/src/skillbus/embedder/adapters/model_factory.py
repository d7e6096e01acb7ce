"""Models of every kind of provider."""

from dataclasses import dataclass

from skillbus.contracts.embedder.registry import ModelRecord, ProviderKind, ProviderRecord
from skillbus.embedder.adapters.http.model import http_model, http_spec
from skillbus.embedder.adapters.http.providers import HttpProviders
from skillbus.embedder.adapters.local.models import LocalModels
from skillbus.embedder.domain.model import EmbeddingModel, ModelSpec


@dataclass(frozen=True, slots=True)
class Models:
    """The `ModelFactory` of a running embedder."""

    providers: HttpProviders
    local: LocalModels

    def spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec | None:
        """See `ModelFactory.spec`."""
        if provider.kind is ProviderKind.LOCAL:
            return self.local.spec(provider, model)
        return http_spec(provider, model)

    def make(self, provider: ProviderRecord, model: ModelRecord) -> EmbeddingModel:
        """See `ModelFactory.make`."""
        if provider.kind is ProviderKind.LOCAL:
            return self.local.make(provider, model)
        return http_model(provider, model, self.providers)
