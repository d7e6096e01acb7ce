"""`POST /api/embed` of Ollama."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from skillbus.embedder.adapters.http.reply import Answer, ReplyFormat, TokenCount, parsed


class _Reply(ReplyFormat):
    embeddings: Annotated[list[Annotated[list[float], Field(fail_fast=True)]], Field(fail_fast=True)]
    prompt_eval_count: TokenCount | None = None


def body(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]:
    """One text goes as a string, as the scenario has it (skill-vector-retrieval.md § OllamaAdapter embed方法实现)."""
    one_or_all = texts[0] if len(texts) == 1 else list(texts)
    request: dict[str, object] = {"model": model, "input": one_or_all, "options": {"truncate": True}}
    return request if dimensions is None else {**request, "dimensions": dimensions}


def read(reply: bytes) -> Answer:
    """The vectors, which come in the order of the texts.

    Raises:
        NotVectorsError: another format.
    """
    answer = parsed(_Reply, reply)
    return Answer(answer.embeddings, answer.prompt_eval_count)
