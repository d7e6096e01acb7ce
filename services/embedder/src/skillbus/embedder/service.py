"""The embedder's handlers: decode, one call of the domain, encode."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skillbus.common.bus import headers
from skillbus.contracts.embedder import EmbeddingModel, EmbedTexts, Role, SparseVector, TextsEmbedded
from skillbus.contracts.endpoint import Check
from skillbus.contracts.message import FloatMatrix
from skillbus.embedder.domain import lexical
from skillbus.embedder.domain.embedding import EmbeddingService
from skillbus.embedder.domain.lanes import Priority
from skillbus.embedder.domain.model import ModelSpec


@dataclass(frozen=True, slots=True)
class EmbedderHandlers:
    """Answers the embedder's requests."""

    embedding: EmbeddingService
    load_wait_s: float

    async def embed_texts(self, request: EmbedTexts) -> TextsEmbedded:
        """Dense and sparse vectors; queries overtake documents."""
        wanted = request.model is None or request.model == self.embedding.spec.fingerprint
        embedded = await self.embedding.embed(
            request.texts,
            request.role,
            Priority.QUERY if request.role is Role.QUERY else Priority.BULK,
            want_dense=request.dense and wanted,
            want_sparse=request.sparse,
            load_wait_s=headers.remaining_s(self.load_wait_s),
        )
        refused = None if wanted else f"model {request.model} is not the one loaded here ({self.embedding.spec.name})"
        return TextsEmbedded(
            model=embedded.model and _model(embedded.model),
            dense=None if embedded.dense is None else _matrix(embedded.dense),
            sparse=None if embedded.sparse is None else tuple(_sparse(v, request.role) for v in embedded.sparse),
            degraded=embedded.degraded or (refused if request.dense else None),
        )

    async def model_loaded(self) -> Check:
        """Whether dense vectors can be had."""
        reason = await self.embedding.unavailable(wait_s=0)
        return Check(name="model", ready=reason is None, detail=reason or self.embedding.spec.name)


def _model(spec: ModelSpec) -> EmbeddingModel:
    return EmbeddingModel(provider=spec.provider, name=spec.name, fingerprint=spec.fingerprint, dimensions=spec.dim)


def _matrix(rows: NDArray[np.float32]) -> FloatMatrix:
    count, dim = rows.shape
    return FloatMatrix(dim=dim, count=count, data=rows.astype("<f4", copy=False).tobytes())


def _sparse(vector: lexical.SparseVector, role: Role) -> SparseVector:
    return SparseVector(
        indices=tuple(vector.indices.tolist()),
        values=tuple(vector.values.tolist()),
        terms=vector.terms if role is Role.QUERY else (),
    )
