"""What the kinds of providers differ in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.embedder.adapters.http import ollama, openai
from skillbus.embedder.adapters.http.reply import Answer
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


# OpenAI takes 2048 texts, 300,000 tokens in all, and refuses a text of more than 8,192 instead of cutting it. Common
# Chinese takes up to 1.3 tokens a character, so 6,000 characters pass in any language; a model that is asked in English
# alone can be registered with four times as many.
_OPENAI: Final = Wire(
    "https://api.openai.com/v1", "/embeddings", 2048, 180_000, 6_000, body=openai.body, read=openai.read
)
# Ollama computes the batch itself, text after text: a larger one is no faster, and lets queries wait. It cuts a text to
# what the model reads; 24,576 characters fill 8,192 tokens of English, the longest context of common models.
_OLLAMA: Final = Wire("http://127.0.0.1:11434", "/api/embed", 64, 16_384, 24_576, body=ollama.body, read=ollama.read)
# DashScope takes 10 texts and cuts each at 8,192 tokens, of which Chinese has less than one a character. Some of its
# pages speak of 8,192 tokens a batch, others of as many a text: 4,900 estimated ones hold either way.
_DASHSCOPE: Final = Wire(
    "https://dashscope.aliyuncs.com/compatible-mode/v1",
    "/embeddings",
    10,
    4_900,
    8_192,
    body=openai.body,
    read=openai.read,
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
