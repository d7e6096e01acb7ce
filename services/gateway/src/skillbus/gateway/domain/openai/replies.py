"""Vectors and models as OpenAI's API gives them."""

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
from skillbus.gateway.domain.openai.embeddings import Embedded, unknown_model

PART_FLOATS: Final = 65_536
"""Numbers that are written at a time: some 10 ms, in which nothing else is answered."""
_FLOAT_BYTES: Final = 4


def embedding_parts(embedded: Embedded, *, base64: bool) -> Iterator[bytes]:
    """The JSON of an `OpenAiEmbeddings`, piece by piece."""
    at = 0
    yield b'{"object":"list","data":['
    for matrix in embedded.matrices:
        step = max(1, PART_FLOATS // matrix.dim)
        for first in range(0, matrix.count, step):
            rows = _rows(matrix, range(first, min(first + step, matrix.count)), base64=base64)
            parts = [b'{"object":"embedding","index":%d,"embedding":%b}' % (at + n, row) for n, row in enumerate(rows)]
            yield (b"," if at else b"") + b",".join(parts)
            at += len(parts)
    usage = OpenAiUsage(prompt_tokens=embedded.tokens, total_tokens=embedded.tokens)
    yield b'],"model":%b,"usage":%b}' % (to_json(embedded.model.name), to_json(usage))


def _rows(matrix: FloatMatrix, numbers: range, *, base64: bool) -> Iterator[bytes]:
    size_bytes = matrix.dim * _FLOAT_BYTES
    view = memoryview(matrix.data)
    for number in numbers:
        row = view[number * size_bytes : (number + 1) * size_bytes]
        yield b'"%b"' % b2a_base64(row, newline=False) if base64 else _numbers(row)


def _numbers(row: memoryview) -> bytes:
    floats = array("f", row.tobytes())
    if sys.byteorder == "big":
        floats.byteswap()
    return to_json(floats.tolist())


def model_list(providers: Sequence[ProviderRecord], models: Sequence[ModelRecord]) -> OpenAiModels:
    """The models that are enabled, of providers that are and that have embeddings."""
    usable = _usable(providers, models)
    names = Counter(model.name for model in usable)
    return OpenAiModels(data=tuple(_object(model, shared=names[model.name] > 1) for model in usable))


def model_object(providers: Sequence[ProviderRecord], models: Sequence[ModelRecord], wanted: str) -> OpenAiModel:
    """The model that `/v1/embeddings` takes by that word.

    Raises:
        RequestError: `not_found`, there is none.
    """
    usable = _usable(providers, models)
    for model in usable:
        if wanted in {model.name, f"{model.provider}/{model.name}", model.fingerprint, model.id}:
            return _object(model, shared=sum(other.name == model.name for other in usable) > 1)
    raise unknown_model(wanted)


def _usable(providers: Sequence[ProviderRecord], models: Sequence[ModelRecord]) -> list[ModelRecord]:
    embed = {it.name for it in providers if it.enabled and it.kind is not ProviderKind.ANTHROPIC}
    return [model for model in models if model.enabled and model.provider in embed]


def _object(model: ModelRecord, *, shared: bool) -> OpenAiModel:
    return OpenAiModel(
        id=f"{model.provider}/{model.name}" if shared else model.name,
        created=int(model.created_at.timestamp()),
        owned_by=model.provider,
        dimensions=model.dimensions,
        fingerprint=model.fingerprint,
    )
