"""The embedder's handlers: decode, one call of the domain, encode."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
from skillbus.embedder.domain.embedding import EmbeddingService, Wanted
from skillbus.embedder.domain.inference.lanes import Priority
from skillbus.embedder.domain.registry.snapshot import RegisteredModel
from skillbus.relevance.calibrations import find_calibration
from skillbus.relevance.lexical.encoder import LexicalVector


@dataclass(frozen=True, slots=True)
class EmbedderHandlers:
    """Answers the embedder's requests."""

    embedding: EmbeddingService
    load_wait_s: float

    async def embed_texts(self, request: EmbedTexts) -> TextsEmbedded:
        """Dense and sparse vectors; queries overtake documents."""
        wanted = Wanted(
            request.role,
            Priority.QUERY if request.role is TextRole.QUERY else Priority.BULK,
            dense=request.dense,
            sparse=request.sparse,
            model=request.model,
            load_wait_s=headers.remaining_s(self.load_wait_s),
            within_s=_left_s(),
            sparse_texts=request.sparse_texts,
            asides=request.asides,
            mean_terms=request.mean_terms,
        )
        embedded = await self.embedding.embed(request.texts, wanted)
        return TextsEmbedded(
            model=embedded.model and _model(embedded.model),
            dense=None if embedded.dense is None else _matrix(embedded.dense),
            sparse=None if embedded.sparse is None else tuple(_sparse(v, request.role) for v in embedded.sparse),
            degraded=embedded.degraded,
            skipped=tuple(SkippedModel(provider=s.provider, name=s.model, reason=s.reason) for s in embedded.skipped),
            tokens=embedded.tokens,
        )

    async def model_loaded(self) -> HealthCheck:
        """Whether the default model gives vectors."""
        name, reason = await self.embedding.default()
        return HealthCheck(name="model", ready=reason is None, detail=reason or name)


def _left_s() -> float | None:
    left_s = headers.remaining_s(math.inf)
    return None if math.isinf(left_s) else left_s


def _model(registered: RegisteredModel) -> EmbeddingModel | None:
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


def _matrix(rows: NDArray[np.float32]) -> FloatMatrix:
    count, dim = rows.shape
    return FloatMatrix(dim=dim, count=count, data=rows.astype("<f4", copy=False).tobytes())


def _sparse(vector: LexicalVector, role: TextRole) -> SparseVector:
    return SparseVector(
        indices=tuple(vector.indices.tolist()),
        values=tuple(vector.values.tolist()),
        terms=vector.terms if role is TextRole.QUERY else (),
    )
