"""Checks of a provider's reply in any format: one vector per text, all of one width, finite and not zero."""

from dataclasses import dataclass
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillbus.common.validation import describe_problems
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


def parse_reply(reply_format: type[FormatT], body: bytes) -> FormatT:
    """Parse a reply.

    Raises:
        ReplyFormatError: the reply has another format; the message quotes nothing of it.
    """
    try:
        return reply_format.model_validate_json(body)
    except ValidationError as error:
        problem = describe_problems(error, limit=1)[:300]
    raise ReplyFormatError(f"answered something else than vectors ({problem})")


def build_rows(reply: ReplyVectors, count: int, dim: int) -> EmbeddedRows:
    """Scale the vectors to length 1, in float32, shape (count, dim).

    Args:
        reply: Vectors of the reply.
        count: Number of texts sent.
        dim: Required width; 0 accepts any.

    Raises:
        ReplyFormatError: wrong number or width of vectors, or a vector without direction.
    """
    if len(reply.vectors) != count:
        raise ReplyFormatError(f"answered {count} texts with {len(reply.vectors)} vectors")
    widths = {len(vector) for vector in reply.vectors}
    listed = ", ".join(map(str, sorted(widths)[:5])) + (" …" if len(widths) > 5 else "")
    if len(widths) != 1 or not all(widths):
        raise ReplyFormatError(f"answered vectors of {listed} dimensions")
    if dim and widths != {dim}:
        raise ReplyFormatError(f"answered vectors of {listed} dimensions; the model is registered with {dim}")
    return EmbeddedRows(_normalise_rows(np.array(reply.vectors, dtype=np.float64)), reply.tokens)


def _normalise_rows(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    if not bool(np.all(np.isfinite(largest) & (largest > _SMALLEST))):
        raise ReplyFormatError("answered vectors that are zero or not finite")
    scaled = vectors / largest  # the square of a large number would be infinite
    rows: NDArray[np.float32] = (scaled / np.linalg.norm(scaled, axis=1, keepdims=True)).astype(np.float32)
    return rows
