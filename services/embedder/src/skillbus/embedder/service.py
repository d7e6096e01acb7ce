"""Handlers of the embedder's requests: decode, one call of the domain, encode."""

import math
from dataclasses import dataclass

from skillbus.common.bus import headers
from skillbus.common.bus.responder import Route, route
from skillbus.contracts.embedder import registry as contract
from skillbus.contracts.embedder.chat_models import FIND_CHAT_MODELS, ChatModel, ChatModelsFound, FindChatModels
from skillbus.contracts.embedder.embedding import (
    EmbeddingModel,
    EmbedTexts,
    SparseVector,
    TextRole,
    TextsEmbedded,
)
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
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.message import Empty, FloatMatrix
from skillbus.embedder.domain.embedding import EmbeddingService
from skillbus.embedder.domain.model import ModelFactory
from skillbus.embedder.domain.registry.probe import probe_provider
from skillbus.embedder.domain.registry.registry import Registry
from skillbus.embedder.domain.registry.snapshot import RegisteredModel
from skillbus.relevance.score import find_calibration


@dataclass(frozen=True, slots=True)
class EmbedderHandlers:
    """Handlers of requests for vectors."""

    embedding: EmbeddingService
    load_wait_s: float

    async def embed_texts(self, request: EmbedTexts) -> TextsEmbedded:
        """Return dense and sparse vectors. Queries overtake documents."""
        left_s = headers.remaining_s(math.inf)
        result = await self.embedding.embed_request(
            request,
            load_wait_s=headers.remaining_s(self.load_wait_s),
            within_s=None if math.isinf(left_s) else left_s,
        )
        dense = sparse = None
        if (rows := result.dense) is not None:
            count, dim = rows.shape
            dense = FloatMatrix(dim=dim, count=count, data=rows.astype("<f4", copy=False).tobytes())
        if result.sparse is not None:
            sparse = tuple(
                SparseVector(
                    indices=tuple(vector.indices.tolist()),
                    values=tuple(vector.values.tolist()),
                    terms=vector.terms if request.role is TextRole.QUERY else (),
                )
                for vector in result.sparse
            )
        return TextsEmbedded(
            model=result.model and _encode_model(result.model),
            dense=dense,
            sparse=sparse,
            degraded=result.degraded,
            skipped=result.skipped,
            tokens=result.tokens,
        )

    async def check_model(self) -> HealthCheck:
        """Report whether the default model is ready."""
        name, reason = await self.embedding.check_default()
        return HealthCheck(name="model", ready=reason is None, detail=reason or name)


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
            route(FIND_CHAT_MODELS, self.find_chat_models),
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

    async def find_chat_models(self, request: FindChatModels) -> ChatModelsFound:
        found = await self.registry.find_chat_models(request.model)
        return ChatModelsFound(models=tuple(ChatModel(model=one.model, provider=one.provider) for one in found))

    async def delete_model(self, request: ModelSelector) -> RegistryEntryDeleted:
        return RegistryEntryDeleted(name=(await self.registry.delete_model(request.id)).name)


def _encode_model(registered: RegisteredModel) -> EmbeddingModel | None:
    spec, model = registered.spec, registered.model
    if spec is None:
        return None
    return EmbeddingModel(
        provider=model.provider,
        name=model.name,
        fingerprint=spec.fingerprint,
        dimensions=spec.dim,
        calibration=model.calibration or find_calibration(model.name),
    )
