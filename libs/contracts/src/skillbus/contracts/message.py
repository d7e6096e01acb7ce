"""What every message on the bus has in common, and the value types that JSON lacks.

JSON carries a matrix as a list of rows and bytes as base64; msgpack carries both as they are: little-endian float32
bytes and raw bytes. Each type here reads both forms, whichever came.
"""

import base64
import binascii
import sys
from array import array
from math import isfinite
from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

JSON = "application/json"
MSGPACK = "application/msgpack"


class Message(BaseModel):
    """A frozen value. Readers ignore fields they do not know; writers only ever add optional ones."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null", use_attribute_docstrings=True)


class Empty(Message):
    """A request that says all by its subject."""


def _from_base64(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error


Blob = Annotated[
    bytes,
    BeforeValidator(_from_base64, json_schema_input_type=str),
    PlainSerializer(lambda value: base64.b64encode(value).decode("ascii"), return_type=str, when_used="json"),
    Field(json_schema_extra={"contentEncoding": "base64"}),
]
"""Bytes: base64 in JSON, raw in msgpack."""


def reject_nul(value: str) -> str:
    """The text. Raises ValueError when it holds NUL."""
    if "\0" in value:
        raise ValueError("holds a NUL character: send text without it")
    return value


Project = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$"),
    Field(description="The tenant. Nothing of one project is ever seen by another."),
]
DEFAULT_PROJECT = "default"

SkillName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64),
    Field(description="A skill's name as the Agent Skills format defines it."),
]

WITHOUT_NUL: Final = AfterValidator(reject_nul)
"""Stands behind the constraints of a text: those that come after it are of no text, in what is said and documented."""
PlainText = Annotated[str, WITHOUT_NUL]
"""Text without NUL, of any length."""

JSON_DEPTH: Final = 64
"""Of objects and lists within one another. Readers of JSON give up at 128 or 200; values are wrapped on their way."""
_INTEGERS: Final = range(-(2**63), 2**64)
"""What a vector store keeps of whole numbers."""


def check_json(value: JsonValue) -> None:
    """Whether everything that a value passes through can read it. Raises ValueError when it cannot."""
    level: list[JsonValue] = [value]
    for _ in range(JSON_DEPTH + 1):
        level = [inner for outer in level for inner in _within(outer)]
        if not level:
            return
    raise ValueError(f"is nested more than {JSON_DEPTH} deep: send it flatter")


def _within(value: JsonValue) -> "list[JsonValue]":
    """The values directly in a value. Raises ValueError when it is a number that is not carried."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list):
        return value
    if isinstance(value, int) and value not in _INTEGERS:
        raise ValueError("holds a whole number of more than 64 bits: send it as text")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError("holds a number that JSON does not have, as NaN or 1e999: send another")
    return []


def _carried(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    check_json(value)
    return value


JsonObject = Annotated[dict[str, JsonValue], AfterValidator(_carried)]
"""A JSON object of at most 64 levels, whose whole numbers have at most 64 bits."""


class FloatMatrix(Message):
    """`count` rows of `dim` float32 values. In JSON a list of rows; in msgpack `{dim, count, data}`."""

    dim: int = Field(ge=1)
    count: int = Field(ge=0)
    data: bytes
    """Row after row, little-endian float32, `count * dim * 4` bytes."""

    @model_validator(mode="before")
    @classmethod
    def _from_rows(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        if not value or not all(isinstance(row, list) and len(row) == len(value[0]) for row in value):
            raise ValueError("a matrix is a list of rows of one length")
        floats = array("f", (number for row in value for number in row))
        if sys.byteorder == "big":
            floats.byteswap()
        return {"dim": len(value[0]), "count": len(value), "data": floats.tobytes()}

    @model_validator(mode="after")
    def _size_fits(self) -> Self:
        if len(self.data) != self.count * self.dim * 4:
            raise ValueError(f"{self.count} x {self.dim} float32 values are {self.count * self.dim * 4} bytes")
        return self

    def rows(self) -> list[list[float]]:
        """The matrix as Python floats."""
        floats = array("f")
        floats.frombytes(self.data)
        if sys.byteorder == "big":
            floats.byteswap()
        return [floats[at : at + self.dim].tolist() for at in range(0, len(floats), self.dim)]

    @model_serializer(mode="wrap", when_used="json")
    def _as_rows(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> list[list[float]]:
        return self.rows()


class Content(Message):
    """Bytes that travel in the message when they are small, and through the object store when they are not."""

    size_bytes: int = Field(ge=0)
    sha256: str
    """Hex digest of the bytes."""
    inline: Blob | None = None
    object_name: str | None = None
    """Name in the object store bucket that the request names; set when `inline` is not."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.inline is None) == (self.object_name is None):
            raise ValueError("content is either inline or an object's name")
        return self
