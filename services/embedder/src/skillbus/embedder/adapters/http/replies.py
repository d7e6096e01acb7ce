"""What a provider's reply must hold, whichever format it has: a vector a text, of one width, finite and not zero."""

from dataclasses import dataclass
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillbus.embedder.domain.errors import EmbedderError
from skillbus.embedder.domain.model import Rows

_SMALLEST = 1e-30  # of a vector's largest number; a model's are near 1e-2


class NotVectorsError(EmbedderError):
    """A reply that is something else than the vectors asked for. The message continues "the provider …"."""


class ReplyFormat(BaseModel):
    """Base of formats: a number in quotes is none, NaN and Infinity are none, unknown fields are passed over."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, extra="ignore")


Format = TypeVar("Format", bound=ReplyFormat)
TokenCount = Annotated[int, Field(ge=0, le=2**31)]
"""Of one request. OpenAI takes 300,000; JSON knows numbers that no float holds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Vectors in the order of the texts."""

    vectors: list[list[float]]
    tokens: int | None


def parsed(kind: type[Format], body: bytes) -> Format:
    """The reply, read.

    Raises:
        NotVectorsError: it has another format; nothing of the reply is in the message.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or "reply"
    raise NotVectorsError(f"answered something else than vectors ({place}: {first['msg'][:200]})")


def unit_rows(answer: Answer, count: int, dim: int) -> Rows:
    """The vectors at length 1, in float32, shape (count, dim).

    Args:
        answer: What the provider returned.
        count: Of texts that were sent.
        dim: What the width must be; 0 if that is not known.

    Raises:
        NotVectorsError: they are not as many, or not of one width, or of another one, or some have no direction.
    """
    if len(answer.vectors) != count:
        raise NotVectorsError(f"answered {count} texts with {len(answer.vectors)} vectors")
    widths = {len(vector) for vector in answer.vectors}
    if len(widths) != 1 or not all(widths):
        raise NotVectorsError(f"answered vectors of {_listed(widths)} dimensions")
    if dim and widths != {dim}:
        raise NotVectorsError(f"answered vectors of {_listed(widths)} dimensions; the model is registered with {dim}")
    return Rows(_normalised(np.array(answer.vectors, dtype=np.float64)), answer.tokens)


def _normalised(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    if not bool(np.all(np.isfinite(largest) & (largest > _SMALLEST))):
        raise NotVectorsError("answered vectors that are zero or not finite")
    scaled = vectors / largest  # the square of a large number would be infinite
    rows: NDArray[np.float32] = (scaled / np.linalg.norm(scaled, axis=1, keepdims=True)).astype(np.float32)
    return rows


def _listed(widths: set[int]) -> str:
    shown = ", ".join(map(str, sorted(widths)[:5]))
    return f"{shown} …" if len(widths) > 5 else shown
