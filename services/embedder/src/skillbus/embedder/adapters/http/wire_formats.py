"""Wire formats of providers: default address and limits, request body, and reply parser of each kind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.contracts.validation import describe_problems
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import EmbeddedRows
from skillbus.providers.errors import ReplyFormatError

_SMALLEST = 1e-30  # bound on a vector's largest number; those of models are near 1e-2


class ReplyFormat(BaseModel):
    """Base of the formats. Quoted numbers, NaN and Infinity are refused; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, extra="ignore")


FormatT = TypeVar("FormatT", bound=ReplyFormat)
TokenCount = Annotated[int, Field(ge=0, le=2**31)]
"""Tokens of one request. OpenAI accepts 300,000; JSON allows numbers that no float holds."""


@dataclass(frozen=True, slots=True)
class ReplyVectors:
    """Vectors in the order of the texts."""

    vectors: list[list[float]]
    tokens: int | None


@dataclass(frozen=True, slots=True)
class WireFormat:
    """Format of one kind of provider, with defaults for values that the registry does not give."""

    base_url: str
    path: str
    batch_texts: int
    batch_tokens: int
    """Estimated tokens of a batch; the estimate may be as low as 0.6 of the true count (`estimate_tokens`)."""
    max_chars: int
    build_body: Callable[[str, Sequence[str], int | None], dict[str, object]]
    """Builds a request from model, texts, and the requested dimensions."""
    parse_vectors: Callable[[bytes], ReplyVectors]
    """Parses a reply. Raises ReplyFormatError."""


class _OpenAiEmbedding(ReplyFormat):
    index: int
    embedding: Annotated[list[float], Field(fail_fast=True)]


class _GeminiEmbedding(_OpenAiEmbedding):
    index: int = 0
    """Google omits the index of the first vector."""


class _OpenAiUsage(ReplyFormat):
    prompt_tokens: TokenCount | None = None


class _OpenAiReply(ReplyFormat):
    data: Annotated[list[_OpenAiEmbedding], Field(fail_fast=True)]
    usage: _OpenAiUsage | None = None


class _GeminiReply(ReplyFormat):
    data: Annotated[list[_GeminiEmbedding], Field(fail_fast=True)]
    usage: _OpenAiUsage | None = None


class _OllamaReply(ReplyFormat):
    embeddings: Annotated[list[Annotated[list[float], Field(fail_fast=True)]], Field(fail_fast=True)]
    prompt_eval_count: TokenCount | None = None


def parse_reply(reply_format: type[FormatT], body: bytes) -> FormatT:
    """Parse a reply. Raises ReplyFormatError; its message quotes nothing of the reply."""
    try:
        return reply_format.model_validate_json(body)
    except ValidationError as error:
        problem = describe_problems(error, limit=1)[:300]
    raise ReplyFormatError(f"answered something else than vectors ({problem})")


def build_rows(reply: ReplyVectors, count: int, dim: int) -> EmbeddedRows:
    """Scale the vectors of `count` texts to length 1, in float32, shape (count, dim). A `dim` of 0 accepts any width.

    Raises ReplyFormatError for a wrong number or width of vectors, or a vector without direction.
    """
    if len(reply.vectors) != count:
        raise ReplyFormatError(f"answered {count} texts with {len(reply.vectors)} vectors")
    widths = {len(vector) for vector in reply.vectors}
    listed = ", ".join(map(str, sorted(widths)[:5])) + (" …" if len(widths) > 5 else "")
    if len(widths) != 1 or not all(widths):
        raise ReplyFormatError(f"answered vectors of {listed} dimensions")
    if dim and widths != {dim}:
        raise ReplyFormatError(f"answered vectors of {listed} dimensions; the model is registered with {dim}")
    vectors = np.array(reply.vectors, dtype=np.float64)
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    if not bool(np.all(np.isfinite(largest) & (largest > _SMALLEST))):
        raise ReplyFormatError("answered vectors that are zero or not finite")
    scaled = vectors / largest  # the square of a large number would be infinite
    rows: NDArray[np.float32] = (scaled / np.linalg.norm(scaled, axis=1, keepdims=True)).astype(np.float32)
    return EmbeddedRows(rows, reply.tokens)


def _build_openai_body(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]:
    """Build `POST /embeddings` of OpenAI, which DashScope, vLLM, LM Studio and others adopted.

    `dimensions` is only sent to models that can shorten their vectors.
    """
    body: dict[str, object] = {"input": list(texts), "model": model, "encoding_format": "float"}
    return body if dimensions is None else {**body, "dimensions": dimensions}


def _parse_openai_reply(reply: bytes) -> ReplyVectors:
    parsed = parse_reply(_OpenAiReply, reply)
    return _order_vectors(parsed.data, parsed.usage)


def _parse_gemini_reply(reply: bytes) -> ReplyVectors:
    parsed = parse_reply(_GeminiReply, reply)
    return _order_vectors(parsed.data, parsed.usage)


def _order_vectors(data: Sequence[_OpenAiEmbedding], usage: _OpenAiUsage | None) -> ReplyVectors:
    """Order the vectors by their `index`: the format does not promise the order of the texts."""
    ordered = sorted(data, key=lambda item: item.index)
    if [item.index for item in ordered] != list(range(len(ordered))):
        raise ReplyFormatError("answered vectors whose indices are not those of the texts, each once")
    return ReplyVectors([item.embedding for item in ordered], usage.prompt_tokens if usage else None)


def _build_ollama_body(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]:
    """Build `POST /api/embed` of Ollama.

    A single text is sent as a string (skill-vector-retrieval.md § OllamaAdapter embed方法实现).
    """
    one_or_all = texts[0] if len(texts) == 1 else list(texts)
    body: dict[str, object] = {"model": model, "input": one_or_all, "options": {"truncate": True}}
    return body if dimensions is None else {**body, "dimensions": dimensions}


def _parse_ollama_reply(reply: bytes) -> ReplyVectors:
    parsed = parse_reply(_OllamaReply, reply)
    return ReplyVectors(parsed.embeddings, parsed.prompt_eval_count)


# OpenAI accepts 2048 texts, 300,000 tokens in all, and refuses a text over 8,192 tokens instead of cutting it. Common
# Chinese takes up to 1.3 tokens a character, so 6,000 characters pass in any language. A model for English alone can be
# registered with four times as many.
_OPENAI: Final = WireFormat(
    "https://api.openai.com/v1",
    "/embeddings",
    2048,
    180_000,
    6_000,
    build_body=_build_openai_body,
    parse_vectors=_parse_openai_reply,
)
# Ollama computes a batch text by text: a larger batch is no faster, and delays queries. It cuts a text to the context
# of the model; 24,576 characters fill 8,192 tokens of English, the longest context of common models.
_OLLAMA: Final = WireFormat(
    "http://127.0.0.1:11434",
    "/api/embed",
    64,
    16_384,
    24_576,
    build_body=_build_ollama_body,
    parse_vectors=_parse_ollama_reply,
)
# DashScope accepts 10 texts and cuts each at 8,192 tokens; Chinese has less than one token a character. Some of its
# pages state 8,192 tokens for a batch, others for a text: 4,900 estimated tokens satisfy both.
_DASHSCOPE: Final = WireFormat(
    "https://dashscope.aliyuncs.com/compatible-mode/v1",
    "/embeddings",
    10,
    4_900,
    8_192,
    build_body=_build_openai_body,
    parse_vectors=_parse_openai_reply,
)

# Google accepts 100 texts in a request. Its models read 2,048 tokens of a text; Chinese has less than one a character.
_GEMINI: Final = WireFormat(
    "https://generativelanguage.googleapis.com/v1beta/openai",
    "/embeddings",
    100,
    18_000,
    8_192,
    build_body=_build_openai_body,
    parse_vectors=_parse_gemini_reply,
)


def select_wire_format(kind: ProviderKind) -> WireFormat:
    """Return the wire format. Raises ModelUnavailableError for a kind without embeddings, or not reached over HTTP."""
    match kind:
        case ProviderKind.OPENAI:
            return _OPENAI
        case ProviderKind.OLLAMA:
            return _OLLAMA
        case ProviderKind.DASHSCOPE:
            return _DASHSCOPE
        case ProviderKind.GEMINI:
            return _GEMINI
        case ProviderKind.ANTHROPIC:
            raise ModelUnavailableError("anthropic has no embeddings; register a model of another provider")
        case ProviderKind.LOCAL:
            raise ModelUnavailableError("local models are not reached over HTTP")
