"""OpenAI's API below `/v1`: embeddings, models and errors in its format.

Texts follow OpenAI's rules, and are embedded in as many requests on the bus as needed.
"""

import asyncio
import sys
from array import array
from binascii import b2a_base64
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError, to_json

from skillbus.common.paging import cut_batches
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbeddingModel, EmbedTexts, TextRole, TextsEmbedded
from skillbus.contracts.embedder.registry import ModelKind, ModelRecord, ProviderKind, ProviderRecord
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import OpenAiError, OpenAiErrorBody, OpenAiModel, OpenAiModels, OpenAiUsage, Problem
from skillbus.contracts.message import MSGPACK, FloatMatrix, Message, PlainText
from skillbus.gateway.domain.ports import BusCaller

INPUTS_MAX: Final = 2048
"""Most texts of one request, as in OpenAI's API."""
TEXT_CHARACTERS: Final = 32_768
"""Longest text, as in `EmbedTexts`."""
PIECE_TEXTS: Final = 128
"""Most texts of one request on the bus. With 1536 dimensions the reply has 786 kB, which fits into a NATS message. A
request with a larger reply is halved."""
CONCURRENT_PIECES: Final = 4
"""Concurrent requests on the bus for one caller. Other callers need their share."""
PART_FLOATS: Final = 65_536
"""Numbers that are written at a time. It takes about 10 ms, during which nothing else is answered."""
_FLOAT_BYTES: Final = 4
OPENAI_PREFIX: Final = "/v1/"
_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES: Final = {
    ErrorCode.UNAUTHORIZED: "invalid_api_key",
    ErrorCode.OVERLOADED: "rate_limit_exceeded",
    ErrorCode.INTERNAL: "server_error",
}
"""Codes with another name in OpenAI's API."""


def _check_texts(value: object) -> tuple[str, ...]:
    texts: object = [value] if isinstance(value, str) else value
    if not isinstance(texts, list):
        raise PydanticCustomError("input_type", "must be a text or a list of texts")
    if not 0 < len(texts) <= INPUTS_MAX:
        raise PydanticCustomError(
            "input_count",
            "has {count} texts: send 1 to {most} in a request",
            {"count": len(texts), "most": INPUTS_MAX},
        )
    return tuple(_check_text(text, at) for at, text in enumerate(texts))


def _check_text(text: object, at: int) -> str:
    context = {"at": at, "most": TEXT_CHARACTERS}
    if isinstance(text, int | list):
        raise PydanticCustomError(
            "input_tokens",
            "has token ids, which cannot be read without their vocabulary: send texts "
            "(langchain-openai: OpenAIEmbeddings(check_embedding_ctx_length=False))",
        )
    if not isinstance(text, str):
        raise PydanticCustomError("input_type", "must be a text or a list of texts; number {at} is not a text", context)
    if not text:
        raise PydanticCustomError("input_empty", "must not have an empty text; number {at} is empty", context)
    if len(text) > TEXT_CHARACTERS:
        message = "has a text of {length} characters, number {at}: split texts longer than {most}"
        raise PydanticCustomError("input_length", message, {**context, "length": len(text)})
    return text


Texts = Annotated[tuple[str, ...], BeforeValidator(_check_texts, json_schema_input_type=str | list[str])]


class EmbeddingsBody(Message):
    """Texts to embed, in OpenAI's format."""

    input: Texts
    """One text, or 1 to 2048 texts, each of at most 32,768 characters. Token ids are not supported."""
    model: PlainText = Field(min_length=1, max_length=300)
    """Name of the model, `provider/name`, or the fingerprint of its vectors. `GET /v1/models` lists the models."""
    encoding_format: Literal["float", "base64"] | None = None
    """Format of the vectors. Absent means `float`. `base64` holds little-endian float32 values without rounding."""
    dimensions: int | None = Field(default=None, ge=1, strict=True)
    """Length of the vectors. It must be that of the model: vectors are not shortened here."""
    input_type: TextRole | None = None
    """Role of the texts; some models embed a query differently. Absent means `document`. Not part of OpenAI's API."""
    user: str | None = None
    """Ignored."""


@dataclass(frozen=True, slots=True)
class OpenAiVectors:
    """Vectors of all texts in their order, in one or more matrices."""

    model: EmbeddingModel
    matrices: tuple[FloatMatrix, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """Texts of one request on the bus, from text number `first` on."""

    first: int
    texts: Sequence[str]

    def split(self) -> "tuple[_Piece, _Piece]":
        middle = len(self.texts) // 2
        return _Piece(self.first, self.texts[:middle]), _Piece(self.first + middle, self.texts[middle:])


class TextEmbedder:
    """Sends texts to the embedder."""

    def __init__(self, caller: BusCaller) -> None:
        self._caller = caller

    async def embed_texts(self, body: EmbeddingsBody) -> OpenAiVectors:
        """Return the vectors of all texts, made by one model.

        Raises:
            RequestError: A request on the bus failed; the others are cancelled.
        """
        gate = asyncio.Semaphore(CONCURRENT_PIECES)
        batches = cut_batches((len(text.encode()) for text in body.input), max_items=PIECE_TEXTS)
        pieces = [_Piece(batch.start, body.input[batch]) for batch in batches]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._embed_piece(piece, body, gate)) for piece in pieces]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        replies = [reply for task in tasks for reply in task.result()]
        models = {reply.model.fingerprint: reply.model for reply in replies if reply.model is not None}
        if len(models) != 1:
            raise RequestError(
                ErrorCode.UNAVAILABLE, "The model was changed while the texts were embedded: send the request again."
            )
        matrices = tuple(reply.dense for reply in replies if reply.dense is not None)
        return OpenAiVectors(next(iter(models.values())), matrices, sum(reply.tokens for reply in replies))

    async def _embed_piece(self, piece: _Piece, body: EmbeddingsBody, gate: asyncio.Semaphore) -> list[TextsEmbedded]:
        """Return the reply for a piece, or several replies if it was too large for a message of the bus."""
        request = EmbedTexts(texts=tuple(piece.texts), role=body.input_type or TextRole.DOCUMENT, model=body.model)
        try:
            async with gate:
                reply = await self._caller.call(EMBED_TEXTS, request, content_type=MSGPACK)
        except RequestError as error:
            if error.code is not ErrorCode.PAYLOAD_TOO_LARGE or len(piece.texts) == 1:
                raise _explain_error(error, piece, body.model) from error
        else:
            _check_reply(reply, piece, body)
            return [reply]
        # The embedder has cached these vectors, so embedding the halves costs little.
        return [reply for half in piece.split() for reply in await self._embed_piece(half, body, gate)]


def _explain_error(error: RequestError, piece: _Piece, model: str) -> RequestError:
    """Return the error with the invalid field, and with text numbers counted over the whole input."""
    if error.code is ErrorCode.NOT_FOUND:
        return make_unknown_model_error(model)
    message, details = error.message, dict(error.details)
    at = details.get("text_index")
    if isinstance(at, int):
        message = message.replace(f"text {at}:", f"text {piece.first + at}:")
        details |= {"text_index": piece.first + at, "param": "input"}
    return RequestError(error.code, message, details=details, retryable=error.retryable)


def make_unknown_model_error(model: str) -> RequestError:
    """Return the `not_found` error for an unknown model."""
    message = f"There is no model {model!r}: GET /v1/models lists the models."
    return RequestError(ErrorCode.NOT_FOUND, message, details={"param": "model"})


def _check_reply(reply: TextsEmbedded, piece: _Piece, body: EmbeddingsBody) -> None:
    if reply.dense is None or reply.model is None:
        raise RequestError(ErrorCode.MODEL_UNAVAILABLE, f"{body.model} returns no vectors now: {reply.degraded}")
    if reply.dense.count != len(piece.texts):
        message = f"The embedder returned {reply.dense.count} vectors for {len(piece.texts)} texts."
        raise RequestError(ErrorCode.INTERNAL, message)
    if body.dimensions not in {None, reply.model.dimensions}:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"The vectors of {reply.model.name} have {reply.model.dimensions} dimensions and are not shortened to "
            f"{body.dimensions}: leave out `dimensions`, or register the model with the dimensions that you want.",
            details={"param": "dimensions"},
        )


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
        if base64:
            yield b'"%b"' % b2a_base64(row, newline=False)
            continue
        floats = array("f", row.tobytes())
        if sys.byteorder == "big":
            floats.byteswap()
        yield to_json(floats.tolist())


def list_openai_models(providers: Sequence[ProviderRecord], models: Sequence[ModelRecord]) -> OpenAiModels:
    """Return the enabled models of enabled providers: those that embed texts, and those that answer chats."""
    usable = _list_usable(providers, models)
    names = Counter(model.name for model in usable)
    return OpenAiModels(data=tuple(_make_model(model, shared=names[model.name] > 1) for model in usable))


def find_openai_model(providers: Sequence[ProviderRecord], models: Sequence[ModelRecord], wanted: str) -> OpenAiModel:
    """Return the model that requests below `/v1` name so. Raises RequestError if there is none."""
    usable = _list_usable(providers, models)
    for model in usable:
        if wanted in {model.name, f"{model.provider}/{model.name}", model.fingerprint, model.id}:
            return _make_model(model, shared=sum(other.name == model.name for other in usable) > 1)
    raise make_unknown_model_error(wanted)


def _list_usable(providers: Sequence[ProviderRecord], models: Sequence[ModelRecord]) -> list[ModelRecord]:
    usable = {
        (it.name, kind)
        for it in providers
        for kind in ModelKind
        if it.enabled and (kind is ModelKind.CHAT or it.kind is not ProviderKind.ANTHROPIC)
    }
    return [model for model in models if model.enabled and (model.provider, model.kind) in usable]


def _make_model(model: ModelRecord, *, shared: bool) -> OpenAiModel:
    return OpenAiModel(
        id=f"{model.provider}/{model.name}" if shared else model.name,
        created=int(model.created_at.timestamp()),
        owned_by=model.provider,
        kind=model.kind,
        dimensions=model.dimensions,
        fingerprint=model.fingerprint,
    )


def convert_problem(problem: Problem) -> OpenAiErrorBody:
    """Return a problem document as an error in OpenAI's format."""
    param = problem.details.get("param")
    fields = problem.details.get("fields")
    if param is None and isinstance(fields, list) and fields and isinstance(fields[0], dict):
        param = fields[0].get("field")
    code = "model_not_found" if (problem.code, param) == (ErrorCode.NOT_FOUND, "model") else None
    return OpenAiErrorBody(
        error=OpenAiError(
            message=problem.detail,
            type=_TYPES.get(problem.status, "invalid_request_error" if problem.status < 500 else "server_error"),
            param=param if isinstance(param, str) else None,
            code=code or _CODES.get(problem.code, problem.code.value),
        )
    )
