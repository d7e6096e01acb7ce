"""Vectors and models in OpenAI's format."""

import sys
from array import array
from binascii import b2a_base64
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic_core import to_json

from skillbus.contracts.embedder.registry import ModelRecord, ProviderKind, ProviderRecord
from skillbus.contracts.http import OpenAiModel, OpenAiModels, OpenAiUsage
from skillbus.contracts.message import FloatMatrix
from skillbus.gateway.domain.openai.embeddings import OpenAiVectors, make_unknown_model_error

PART_FLOATS: Final = 65_536
"""Numbers that are written at a time. It takes about 10 ms, during which nothing else is answered."""
_FLOAT_BYTES: Final = 4


def write_embeddings(vectors: OpenAiVectors, *, base64: bool) -> Iterator[bytes]:
    """Yield the JSON of an `OpenAiEmbeddings` in parts, without building the object."""
    at = 0
    yield b'{"object":"list","data":['
    for matrix in vectors.matrices:
        step = max(1, PART_FLOATS // matrix.dim)
        for first in range(0, matrix.count, step):
            rows = _write_rows(matrix, range(first, min(first + step, matrix.count)), base64=base64)
            parts = [b'{"object":"embedding","index":%d,"embedding":%b}' % (at + n, row) for n, row in enumerate(rows)]
            yield (b"," if at else b"") + b",".join(parts)
            at += len(parts)
    usage = OpenAiUsage(prompt_tokens=vectors.tokens, total_tokens=vectors.tokens)
    yield b'],"model":%b,"usage":%b}' % (to_json(vectors.model.name), to_json(usage))


def _write_rows(matrix: FloatMatrix, numbers: range, *, base64: bool) -> Iterator[bytes]:
    size_bytes = matrix.dim * _FLOAT_BYTES
    view = memoryview(matrix.data)
    for number in numbers:
        row = view[number * size_bytes : (number + 1) * size_bytes]
        yield b'"%b"' % b2a_base64(row, newline=False) if base64 else _write_numbers(row)


def _write_numbers(row: memoryview) -> bytes:
    floats = array("f", row.tobytes())
    if sys.byteorder == "big":
        floats.byteswap()
    return to_json(floats.tolist())


def list_openai_models(providers: Sequence[ProviderRecord], models: Sequence[ModelRecord]) -> OpenAiModels:
    """Return the enabled models of enabled providers that offer embeddings."""
    usable = _list_usable(providers, models)
    names = Counter(model.name for model in usable)
    return OpenAiModels(data=tuple(_make_model(model, shared=names[model.name] > 1) for model in usable))


def find_openai_model(providers: Sequence[ProviderRecord], models: Sequence[ModelRecord], wanted: str) -> OpenAiModel:
    """Return the model that `/v1/embeddings` accepts under this name. Raises RequestError if there is none."""
    usable = _list_usable(providers, models)
    for model in usable:
        if wanted in {model.name, f"{model.provider}/{model.name}", model.fingerprint, model.id}:
            return _make_model(model, shared=sum(other.name == model.name for other in usable) > 1)
    raise make_unknown_model_error(wanted)


def _list_usable(providers: Sequence[ProviderRecord], models: Sequence[ModelRecord]) -> list[ModelRecord]:
    usable = {it.name for it in providers if it.enabled and it.kind is not ProviderKind.ANTHROPIC}
    return [model for model in models if model.enabled and model.provider in usable]


def _make_model(model: ModelRecord, *, shared: bool) -> OpenAiModel:
    return OpenAiModel(
        id=f"{model.provider}/{model.name}" if shared else model.name,
        created=int(model.created_at.timestamp()),
        owned_by=model.provider,
        dimensions=model.dimensions,
        fingerprint=model.fingerprint,
    )
