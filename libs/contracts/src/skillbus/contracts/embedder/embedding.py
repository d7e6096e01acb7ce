"""What the embedder answers."""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field, StringConstraints, model_validator

from skillbus.contracts.embedder import SERVICE
from skillbus.contracts.embedder.registry import Calibration
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import FloatMatrix, Message


class TextRole(StrEnum):
    """What a text is: some models read a query otherwise than a document."""

    QUERY = "query"
    DOCUMENT = "document"


class EmbedTexts(Message):
    """Texts to embed. Queries overtake documents when the model is busy."""

    texts: tuple[Annotated[str, StringConstraints(max_length=32_768)], ...] = Field(
        min_length=1, max_length=512, fail_fast=True
    )
    role: TextRole = TextRole.DOCUMENT
    dense: bool = True
    sparse: bool = False
    asides: tuple[Annotated[str, StringConstraints(max_length=32_768)], ...] = Field(default=(), max_length=512)
    """Of documents: what is said beside each text; its words count half in sparse vectors, and not in dense ones. One
    a text, or none."""
    sparse_texts: tuple[Annotated[str, StringConstraints(max_length=32_768)], ...] = Field(default=(), max_length=512)
    """Texts to give sparse vectors of, in place of `texts`."""
    mean_terms: float | None = Field(default=None, ge=1, le=10_000, allow_inf_nan=False)
    """Of documents: how many terms the texts of their kind have on average, which BM25 holds the length of each
    against. That of descriptions of tools if absent."""
    model: str | None = Field(default=None, max_length=300)
    """The model whose vectors are wanted: its fingerprint, its name, or `provider/name`. If absent, the default model,
    or the first that can be had of those after it."""

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        if self.asides and len(self.asides) != len(self.texts):
            raise ValueError(
                f"there are {len(self.asides)} asides for {len(self.texts)} texts: give one a text, or none"
            )
        return self


class EmbeddingModel(Message):
    """The model that answered."""

    provider: str
    name: str
    fingerprint: str
    """Short hash of name, revision and preprocessing: vectors of two fingerprints are never compared."""
    dimensions: int
    calibration: Calibration | None = None
    """How its cosines become scores; a neutral map if absent."""


class SkippedModel(Message):
    """A model of the chain that could not be had."""

    provider: str
    name: str
    reason: str


class SparseVector(Message):
    """A text's terms as numbers: BM25 term weights of a document, term counts of a query."""

    indices: tuple[int, ...]
    """Hashes of the terms, uint32, ascending."""
    values: tuple[float, ...]
    terms: tuple[str, ...] = ()
    """The terms that the indices stand for; only for queries."""


class TextsEmbedded(Message):
    """One row a text, and one sparse vector a text or sparse text, in the order of the request."""

    model: EmbeddingModel | None
    dense: FloatMatrix | None = None
    """Rows of length 1. Absent when it was not asked for, or `degraded` says why it cannot be had."""
    sparse: tuple[SparseVector, ...] | None = None
    degraded: str | None = None
    """Why there are no dense vectors although they were asked for."""
    skipped: tuple[SkippedModel, ...] = ()
    """What was tried before the model that answered."""
    tokens: int = 0
    """Of the texts: as the provider counted them, or an estimate."""


EMBED_TEXTS: Final = Endpoint(
    service=SERVICE,
    name="embed_texts",
    request=EmbedTexts,
    reply=TextsEmbedded,
    summary="Embed texts as dense vectors, sparse vectors or both; as msgpack, vectors are float32 blobs.",
    raises=(ErrorCode.MODEL_UNAVAILABLE, ErrorCode.NOT_FOUND),
    timeout_s=30.0,
    example={"texts": ["帮我提交代码"], "role": "query", "sparse": True},
)
