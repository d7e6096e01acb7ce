"""`/v1/embeddings`: texts by OpenAI's rules, embedded in as many requests on the bus as they need."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbeddingModel, EmbedTexts, TextRole, TextsEmbedded
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import MSGPACK, FloatMatrix, Message, PlainText
from skillbus.gateway.domain.ports import BusCaller

INPUTS_MAX: Final = 2048
"""As OpenAI has it."""
TEXT_CHARACTERS: Final = 32_768
"""As `EmbedTexts` has it."""
PIECE_TEXTS: Final = 128
"""Of one request: 1536 dimensions of each are 786 kB, which fits a NATS message. What does not fit is halved."""
PIECE_BYTES: Final = 512 * 1024
"""Of the texts of one request, in UTF-8."""
AT_ONCE: Final = 4
"""Requests at the same time for one caller: the others who embed want their turn too."""


def _texts(value: object) -> list[str]:
    texts: object = [value] if isinstance(value, str) else value
    if not isinstance(texts, list):
        raise PydanticCustomError("input_type", "must be a text or a list of texts")
    if not 0 < len(texts) <= INPUTS_MAX:
        raise PydanticCustomError(
            "input_count",
            "holds {count} texts: send 1 to {most} in a request",
            {"count": len(texts), "most": INPUTS_MAX},
        )
    return [_text(text, at) for at, text in enumerate(texts)]


def _text(text: object, at: int) -> str:
    where = {"at": at, "most": TEXT_CHARACTERS}
    if isinstance(text, int | list):
        raise PydanticCustomError(
            "input_tokens",
            "holds token ids, which cannot be read without the vocabulary that they are of: send texts "
            "(langchain-openai: OpenAIEmbeddings(check_embedding_ctx_length=False))",
        )
    if not isinstance(text, str):
        raise PydanticCustomError("input_type", "must be a text or a list of texts: number {at} is none", where)
    if not text:
        raise PydanticCustomError("input_empty", "cannot hold an empty text: number {at} is one", where)
    if len(text) > TEXT_CHARACTERS:
        said = "holds a text of {length} characters, number {at}: split what is longer than {most}"
        raise PydanticCustomError("input_length", said, {**where, "length": len(text)})
    return text


Texts = Annotated[tuple[str, ...], BeforeValidator(_texts, json_schema_input_type=str | list[str])]


class EmbeddingsBody(Message):
    """Texts to embed, as OpenAI's `POST /v1/embeddings` has them."""

    input: Texts
    """A text, or 1 to 2048 of them, each at most 32,768 characters long. Token ids cannot be read."""
    model: PlainText = Field(min_length=1, max_length=300)
    """Its name, `provider/name`, or the fingerprint of its vectors; `GET /v1/models` names those that there are."""
    encoding_format: Literal["float", "base64"] | None = None
    """`float` if absent. `base64` is of little-endian float32 numbers: 4 bytes each, and nothing is rounded."""
    dimensions: int | None = Field(default=None, ge=1, strict=True)
    """Those of the model: a vector is not cut here."""
    input_type: TextRole | None = None
    """`document` if absent. Some models read a query otherwise. OpenAI has no such field."""
    user: str | None = None
    """Is not read."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of all texts in their order, in one or more matrices."""

    model: EmbeddingModel
    matrices: tuple[FloatMatrix, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some of the texts, from number `first` on."""

    first: int
    texts: Sequence[str]

    def halves(self) -> "tuple[_Piece, _Piece]":
        middle = len(self.texts) // 2
        return _Piece(self.first, self.texts[:middle]), _Piece(self.first + middle, self.texts[middle:])


class TextEmbedder:
    """Asks the embedder."""

    def __init__(self, caller: BusCaller) -> None:
        self._caller = caller

    async def embed(self, body: EmbeddingsBody) -> Embedded:
        """The vectors, all of one model.

        Raises:
            RequestError: The first error of any request on the bus; the others are given up.
        """
        gate = asyncio.Semaphore(AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._embed(piece, body, gate)) for piece in _pieces(body.input)]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        return _joined(list(chain.from_iterable(task.result() for task in tasks)))

    async def _embed(self, piece: _Piece, body: EmbeddingsBody, gate: asyncio.Semaphore) -> list[TextsEmbedded]:
        """The replies for a piece: more than one if it was too large for a message of the bus."""
        request = EmbedTexts(texts=tuple(piece.texts), role=body.input_type or TextRole.DOCUMENT, model=body.model)
        try:
            async with gate:
                reply = await self._caller.call(EMBED_TEXTS, request, content_type=MSGPACK)
        except RequestError as error:
            if error.code is not ErrorCode.PAYLOAD_TOO_LARGE or len(piece.texts) == 1:
                raise _told(error, piece, body.model) from error
        else:
            return [_checked(reply, piece, body)]
        # What was embedded is in the embedder's cache: asking again costs little.
        return [reply for half in piece.halves() for reply in await self._embed(half, body, gate)]


def _pieces(texts: Sequence[str]) -> Iterator[_Piece]:
    first, size_bytes = 0, 0
    for at, text in enumerate(texts):
        length = len(text.encode())
        if at - first == PIECE_TEXTS or (at > first and size_bytes + length > PIECE_BYTES):
            yield _Piece(first, texts[first:at])
            first, size_bytes = at, 0
        size_bytes += length
    yield _Piece(first, texts[first:])


def _told(error: RequestError, piece: _Piece, model: str) -> RequestError:
    """The error with what it says of one text counted from the first of all, and with the field that it is about."""
    if error.code is ErrorCode.NOT_FOUND:
        return unknown_model(model)
    message, details = error.message, dict(error.details)
    at = details.get("text_index")
    if isinstance(at, int):
        message = message.replace(f"text {at}:", f"text {piece.first + at}:")
        details |= {"text_index": piece.first + at, "param": "input"}
    return RequestError(error.code, message, details=details, retryable=error.retryable)


def unknown_model(wanted: str) -> RequestError:
    """There is no such model."""
    said = f"There is no model {wanted!r}: GET /v1/models names those that there are."
    return RequestError(ErrorCode.NOT_FOUND, said, details={"param": "model"})


def _checked(reply: TextsEmbedded, piece: _Piece, body: EmbeddingsBody) -> TextsEmbedded:
    if reply.dense is None or reply.model is None:
        raise RequestError(ErrorCode.MODEL_UNAVAILABLE, f"{body.model} gives no vectors now: {reply.degraded}")
    if reply.dense.count != len(piece.texts):
        said = f"The embedder gave {reply.dense.count} vectors for {len(piece.texts)} texts."
        raise RequestError(ErrorCode.INTERNAL, said)
    if body.dimensions not in {None, reply.model.dimensions}:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"The vectors of {reply.model.name} have {reply.model.dimensions} dimensions and are not cut to "
            f"{body.dimensions}: leave out `dimensions`, or register the model with the dimensions that you want.",
            details={"param": "dimensions"},
        )
    return reply


def _joined(replies: Sequence[TextsEmbedded]) -> Embedded:
    models = {reply.model.fingerprint: reply.model for reply in replies if reply.model is not None}
    if len(models) != 1:
        raise RequestError(
            ErrorCode.UNAVAILABLE, "The model was changed while the texts were embedded: send them again."
        )
    matrices = tuple(reply.dense for reply in replies if reply.dense is not None)
    return Embedded(next(iter(models.values())), matrices, sum(reply.tokens for reply in replies))
