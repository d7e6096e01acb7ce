"""Handlers of embedding requests: decode, one call of the domain, encode."""

import math
from dataclasses import dataclass

from skillbus.common.bus import headers
from skillbus.contracts.embedder.embedding import (
    EmbeddingModel,
    EmbedTexts,
    SkippedModel,
    SparseVector,
    TextRole,
    TextsEmbedded,
)
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.message import FloatMatrix
from skillbus.embedder.domain.embedding import EmbeddingRequest, EmbeddingService
from skillbus.embedder.domain.inference.lanes import Priority
from skillbus.embedder.domain.registry.snapshot import RegisteredModel
from skillbus.relevance.score import find_calibration


@dataclass(frozen=True, slots=True)
class EmbedderHandlers:
    """Handlers of the embedder's own requests."""

    embedding: EmbeddingService
    load_wait_s: float

    async def embed_texts(self, request: EmbedTexts) -> TextsEmbedded:
        """Return dense and sparse vectors. Queries overtake documents."""
        left_s = headers.remaining_s(math.inf)
        result = await self.embedding.embed_request(
            EmbeddingRequest(
                request.texts,
                request.role,
                Priority.QUERY if request.role is TextRole.QUERY else Priority.BULK,
                dense=request.dense,
                sparse=request.sparse,
                model=request.model,
                load_wait_s=headers.remaining_s(self.load_wait_s),
                within_s=None if math.isinf(left_s) else left_s,
                sparse_texts=request.sparse_texts,
                asides=request.asides,
                mean_terms=request.mean_terms,
            )
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
            skipped=tuple(SkippedModel(provider=s.provider, name=s.model, reason=s.reason) for s in result.skipped),
            tokens=result.tokens,
        )

    async def check_model(self) -> HealthCheck:
        """Report whether the default model is ready."""
        name, reason = await self.embedding.check_default()
        return HealthCheck(name="model", ready=reason is None, detail=reason or name)


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
