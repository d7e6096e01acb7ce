"""`POST /embeddings`, as OpenAI has it and DashScope, vLLM, LM Studio and others took it over."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from skillbus.embedder.adapters.http.reply import Answer, NotVectorsError, ReplyFormat, TokenCount, parsed


class _Embedding(ReplyFormat):
    index: int
    embedding: Annotated[list[float], Field(fail_fast=True)]


class _Usage(ReplyFormat):
    prompt_tokens: TokenCount | None = None


class _Reply(ReplyFormat):
    data: Annotated[list[_Embedding], Field(fail_fast=True)]
    usage: _Usage | None = None


def body(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]:
    """All texts in one request. `dimensions` only for models that can shorten their vectors."""
    request: dict[str, object] = {"input": list(texts), "model": model, "encoding_format": "float"}
    return request if dimensions is None else {**request, "dimensions": dimensions}


def read(reply: bytes) -> Answer:
    """The vectors by their `index`: the format does not promise the order of the texts.

    Raises:
        NotVectorsError: another format, or the indices are not 0, 1, … each once.
    """
    answer = parsed(_Reply, reply)
    ordered = sorted(answer.data, key=lambda item: item.index)
    if [item.index for item in ordered] != list(range(len(ordered))):
        raise NotVectorsError("answered vectors whose indices are not those of the texts, each once")
    return Answer([item.embedding for item in ordered], answer.usage.prompt_tokens if answer.usage else None)
