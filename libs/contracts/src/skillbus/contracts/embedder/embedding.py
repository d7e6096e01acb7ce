"""Embedding of texts."""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field, StringConstraints, model_validator

from skillbus.contracts.embedder import SERVICE
from skillbus.contracts.embedder.registry import Calibration
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import FloatMatrix, Message


class TextRole(StrEnum):
    """Role of a text. Some models embed a query differently from a document."""

    QUERY = "query"
    DOCUMENT = "document"


class EmbedTexts(Message):
    """Texts to embed. Queries have priority over documents when the model is busy."""

    texts: tuple[Annotated[str, StringConstraints(max_length=32_768)], ...] = Field(
        min_length=1, max_length=512, fail_fast=True
    )
    role: TextRole = TextRole.DOCUMENT
    dense: bool = True
    sparse: bool = False
    asides: tuple[Annotated[str, StringConstraints(max_length=32_768)], ...] = Field(default=(), max_length=512)
    """Secondary text of each document, such as its tags. Its words have half weight in sparse vectors and none in dense
    ones. Give one for each text, or none."""
    sparse_texts: tuple[Annotated[str, StringConstraints(max_length=32_768)], ...] = Field(default=(), max_length=512)
    """Texts of the sparse vectors, instead of `texts`."""
    mean_terms: float | None = Field(default=None, ge=1, le=10_000, allow_inf_nan=False)
    """Mean number of terms of such documents, to which BM25 relates the length of each. Absent means the mean of tool
    descriptions."""
    model: str | None = Field(default=None, max_length=300)
    """Wanted model: its fingerprint, its name, or `provider/name`. Absent means the default model or, if it is not
    available, the next available model."""

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        if self.asides and len(self.asides) != len(self.texts):
            raise ValueError(
                f"there are {len(self.asides)} asides for {len(self.texts)} texts: give one for each text, or none"
            )
        return self


class EmbeddingModel(Message):
    """Model that made the vectors."""

    provider: str
    name: str
    fingerprint: str
    """Short hash of name, revision and preprocessing. Vectors with different fingerprints are never compared."""
    dimensions: int
    calibration: Calibration | None = None
    """Map from cosines to scores. Absent means a neutral map."""


class SkippedModel(Message):
    """Model that was tried and is not available."""

    provider: str
    name: str
    reason: str


class SparseVector(Message):
    """Terms of a text as numbers: BM25 weights for a document, counts for a query."""

    indices: tuple[int, ...]
    """Hashes of the terms, as ascending uint32."""
    values: tuple[float, ...]
    terms: tuple[str, ...] = ()
    """Term of each index. Queries only."""


class TextsEmbedded(Message):
    """Vectors in the order of the request."""

    model: EmbeddingModel | None
    """Model of the dense vectors. Absent if there are none."""
    dense: FloatMatrix | None = None
    """One row of length 1 for each text. Absent if it was not requested, or for the reason in `degraded`."""
    sparse: tuple[SparseVector, ...] | None = None
    """One vector for each text, or for each of `sparse_texts`. Absent if it was not requested."""
    degraded: str | None = None
    """Reason why requested dense vectors are missing."""
    skipped: tuple[SkippedModel, ...] = ()
    tokens: int = 0
    """Number of tokens of the texts, as the provider counted them, or an estimate."""


EMBED_TEXTS: Final = Endpoint(
    service=SERVICE,
    name="embed_texts",
    request=EmbedTexts,
    reply=TextsEmbedded,
    summary="Embed texts as dense vectors, sparse vectors or both. In msgpack, dense vectors are float32 bytes.",
    raises=(ErrorCode.MODEL_UNAVAILABLE, ErrorCode.NOT_FOUND),
    timeout_s=30.0,
    example={"texts": ["帮我提交代码"], "role": "query", "sparse": True},
)
