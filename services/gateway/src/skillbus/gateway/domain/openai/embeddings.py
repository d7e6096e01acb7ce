"""`POST /v1/embeddings`: texts by OpenAI's rules, embedded in as many requests on the bus as needed."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from skillbus.common.paging import cut_batches
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbeddingModel, EmbedTexts, TextRole, TextsEmbedded
from skillbus.contracts.errors import ErrorCode, RequestError
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


def _check_texts(value: object) -> list[str]:
    texts: object = [value] if isinstance(value, str) else value
    if not isinstance(texts, list):
        raise PydanticCustomError("input_type", "must be a text or a list of texts")
    if not 0 < len(texts) <= INPUTS_MAX:
        raise PydanticCustomError(
            "input_count",
            "has {count} texts: send 1 to {most} in a request",
            {"count": len(texts), "most": INPUTS_MAX},
        )
    return [_check_text(text, at) for at, text in enumerate(texts)]


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
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._embed_piece(piece, body, gate)) for piece in _cut_pieces(body.input)]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        return _join_replies(list(chain.from_iterable(task.result() for task in tasks)))

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


def _cut_pieces(texts: Sequence[str]) -> Iterator[_Piece]:
    for batch in cut_batches((len(text.encode()) for text in texts), max_items=PIECE_TEXTS):
        yield _Piece(batch.start, texts[batch])


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


def _join_replies(replies: Sequence[TextsEmbedded]) -> OpenAiVectors:
    models = {reply.model.fingerprint: reply.model for reply in replies if reply.model is not None}
    if len(models) != 1:
        raise RequestError(
            ErrorCode.UNAVAILABLE, "The model was changed while the texts were embedded: send the request again."
        )
    matrices = tuple(reply.dense for reply in replies if reply.dense is not None)
    return OpenAiVectors(next(iter(models.values())), matrices, sum(reply.tokens for reply in replies))
