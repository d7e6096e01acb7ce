"""What the kinds of providers differ in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.embedder.adapters.http.replies import Answer, NotVectorsError, ReplyFormat, TokenCount, parsed
from skillbus.embedder.domain.errors import ModelUnavailableError


@dataclass(frozen=True, slots=True)
class Wire:
    """Where and how a kind of provider is asked, unless the registry says otherwise."""

    base_url: str
    path: str
    batch_texts: int
    batch_tokens: int
    """Estimated tokens of a batch: an estimate may be as little as 0.6 of the truth (`estimated_tokens`)."""
    max_chars: int
    body: Callable[[str, Sequence[str], int | None], dict[str, object]]
    """Of a request: model, texts, and the dimensions to ask for."""
    read: Callable[[bytes], Answer]
    """Raises NotVectorsError."""


class _OpenAiEmbedding(ReplyFormat):
    index: int
    embedding: Annotated[list[float], Field(fail_fast=True)]


class _OpenAiUsage(ReplyFormat):
    prompt_tokens: TokenCount | None = None


class _OpenAiReply(ReplyFormat):
    data: Annotated[list[_OpenAiEmbedding], Field(fail_fast=True)]
    usage: _OpenAiUsage | None = None


def _openai_body(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]:
    """All texts in one request. `dimensions` only for models that can shorten their vectors."""
    request: dict[str, object] = {"input": list(texts), "model": model, "encoding_format": "float"}
    return request if dimensions is None else {**request, "dimensions": dimensions}


def _read_openai(reply: bytes) -> Answer:
    """The vectors by their `index`: the format does not promise the order of the texts.

    Raises:
        NotVectorsError: another format, or the indices are not 0, 1, … each once.
    """
    answer = parsed(_OpenAiReply, reply)
    ordered = sorted(answer.data, key=lambda item: item.index)
    if [item.index for item in ordered] != list(range(len(ordered))):
        raise NotVectorsError("answered vectors whose indices are not those of the texts, each once")
    return Answer([item.embedding for item in ordered], answer.usage.prompt_tokens if answer.usage else None)


class _OllamaReply(ReplyFormat):
    embeddings: Annotated[list[Annotated[list[float], Field(fail_fast=True)]], Field(fail_fast=True)]
    prompt_eval_count: TokenCount | None = None


def _ollama_body(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]:
    """One text goes as a string, as the scenario has it (skill-vector-retrieval.md § OllamaAdapter embed方法实现)."""
    one_or_all = texts[0] if len(texts) == 1 else list(texts)
    request: dict[str, object] = {"model": model, "input": one_or_all, "options": {"truncate": True}}
    return request if dimensions is None else {**request, "dimensions": dimensions}


def _read_ollama(reply: bytes) -> Answer:
    """The vectors, which come in the order of the texts.

    Raises:
        NotVectorsError: another format.
    """
    answer = parsed(_OllamaReply, reply)
    return Answer(answer.embeddings, answer.prompt_eval_count)


# OpenAI takes 2048 texts, 300,000 tokens in all, and refuses a text of more than 8,192 instead of cutting it. Common
# Chinese takes up to 1.3 tokens a character, so 6,000 characters pass in any language; a model that is asked in English
# alone can be registered with four times as many.
_OPENAI: Final = Wire(
    "https://api.openai.com/v1", "/embeddings", 2048, 180_000, 6_000, body=_openai_body, read=_read_openai
)
# Ollama computes the batch itself, text after text: a larger one is no faster, and lets queries wait. It cuts a text to
# what the model reads; 24,576 characters fill 8,192 tokens of English, the longest context of common models.
_OLLAMA: Final = Wire("http://127.0.0.1:11434", "/api/embed", 64, 16_384, 24_576, body=_ollama_body, read=_read_ollama)
# DashScope takes 10 texts and cuts each at 8,192 tokens, of which Chinese has less than one a character. Some of its
# pages speak of 8,192 tokens a batch, others of as many a text: 4,900 estimated ones hold either way.
_DASHSCOPE: Final = Wire(
    "https://dashscope.aliyuncs.com/compatible-mode/v1",
    "/embeddings",
    10,
    4_900,
    8_192,
    body=_openai_body,
    read=_read_openai,
)


def wire_of(kind: ProviderKind) -> Wire:
    """How a kind of provider is asked.

    Raises:
        ModelUnavailableError: that kind has no embeddings, or is not reached over HTTP.
    """
    match kind:
        case ProviderKind.OPENAI:
            return _OPENAI
        case ProviderKind.OLLAMA:
            return _OLLAMA
        case ProviderKind.DASHSCOPE:
            return _DASHSCOPE
        case ProviderKind.ANTHROPIC:
            raise ModelUnavailableError("anthropic has no embeddings; register a model of another provider")
        case ProviderKind.LOCAL:
            raise ModelUnavailableError("local models are not reached over HTTP")
