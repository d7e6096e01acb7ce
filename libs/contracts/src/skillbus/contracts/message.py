"""Base class of all messages, and value types that JSON lacks.

JSON carries a matrix as a list of rows and bytes as base64. msgpack carries a matrix as little-endian float32 bytes and
bytes unchanged. Each type accepts both forms.
"""

import ast
import base64
import binascii
import sys
from array import array
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc, get_annotations
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    JsonValue,
    PlainSerializer,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from skillbus.contracts.parsing import parse_undisturbed

JSON = "application/json"
MSGPACK = "application/msgpack"


class Message(BaseModel):
    """Frozen value. Readers ignore unknown fields; a contract may only gain optional fields."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, JsonValue]:
        """Describe fields by the docstrings below them.

        Pydantic's `use_attribute_docstrings` reads the sources of all classes when they are imported: 0.2 s of CPU.
        """
        document = handler(core_schema)
        properties = handler.resolve_ref_schema(document).get("properties", {})
        for name, text in _find_docstrings(cls).items():
            if name in properties and "description" not in properties[name]:
                properties[name] = {**properties[name], "description": text}
        return document


def describe_fields(kind: type[Message]) -> None:
    """Describe the fields of a class by the docstrings below them, for readers of `model_fields` such as FastAPI."""
    for name, text in _find_docstrings(kind).items():
        if (field := kind.model_fields.get(name)) is not None and field.description is None:
            field.description = text


def _find_docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings of a class's attributes, also of inherited ones."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        own = _read_docstrings(base.__module__).get(base.__name__, {})
        found = {name: text for name, text in found.items() if name not in get_annotations(base)}
        found |= own
    return found


@cache
def _read_docstrings(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of attributes by the name of their class; nothing of a module without a source."""
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None or not path.endswith(".py"):
        return {}
    source = Path(path).read_text("utf-8")
    tree = parse_undisturbed(lambda: ast.parse(source))
    return {
        node.name: {
            before.target.id: cleandoc(after.value.value)
            for before, after in pairwise(node.body)
            if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if isinstance(after.value.value, str)
        }
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


class Empty(Message):
    """Request without fields: its subject says everything."""


def _from_base64(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"is not base64: {error}") from error


Blob = Annotated[
    bytes,
    BeforeValidator(_from_base64, json_schema_input_type=str),
    PlainSerializer(lambda value: base64.b64encode(value).decode("ascii"), return_type=str, when_used="json"),
    Field(json_schema_extra={"contentEncoding": "base64"}),
]
"""Bytes, in base64 in JSON, unchanged in msgpack."""


def reject_blank(value: str) -> str:
    """Return the text. Raises ValueError if it is empty or has only white space."""
    if not value.strip():
        raise ValueError("is blank: write some text")
    return value


def reject_nul(value: str) -> str:
    """Return the text. Raises ValueError if it contains NUL, which databases and operating systems refuse."""
    if "\0" in value:
        raise ValueError("contains a NUL character: remove it")
    return value


Project = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$"),
    Field(description="Project (tenant) of the request. Projects never see one another's data."),
]
DEFAULT_PROJECT = "default"


class ProjectMessage(Message):
    """Message about one project, which is its first field."""

    project: Project = DEFAULT_PROJECT


SkillName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64),
    Field(description="Name of the skill, as the Agent Skills format defines it."),
]

WITHOUT_NUL: Final = AfterValidator(reject_nul)
"""Validator that refuses NUL. Put it after string constraints: pydantic documents only constraints before it."""
NOT_BLANK: Final = AfterValidator(reject_blank)
"""Validator that refuses text of white space only."""
_INVISIBLE: Final = dict.fromkeys(
    (0xAD, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2060, 0x2065), *range(0x2066, 0x206A), 0xFEFF)
)
"""Characters that nobody sees or says: of no width, and those that set the direction. Joiners are parts of emoji."""


def _remove_invisible(value: object) -> object:
    return value.translate(_INVISIBLE) if isinstance(value, str) else value


VISIBLE: Final = BeforeValidator(_remove_invisible)
"""Validator that removes invisible characters from a name: two names that look alike are one. Put it last."""
PlainText = Annotated[str, WITHOUT_NUL]
"""Text of any length without NUL."""


@dataclass(frozen=True, slots=True)
class NullAs:
    """Annotation of a field that accepts null as another value, for clients that send null for what they leave out."""

    value: object

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            lambda given: self.value if given is None else given, core_schema.nullable_schema(handler(source))
        )


JSON_DEPTH: Final = 64
"""Deepest nesting of JSON values. JSON parsers stop at 128 or 200 levels, and messages wrap the values again."""
_INTEGERS: Final = range(-(2**63), 2**64)
"""Integers that the vector store can keep."""


def check_json(value: JsonValue) -> None:
    """Raise ValueError unless every service and the vector store can carry the value."""
    level: list[JsonValue] = [value]
    for _ in range(JSON_DEPTH + 1):
        level = [inner for outer in level for inner in _within(outer)]
        if not level:
            return
    raise ValueError(f"is nested more than {JSON_DEPTH} levels deep: flatten it")


def _within(value: JsonValue) -> "list[JsonValue]":
    """Return the values directly inside a value. Raises ValueError for a number that cannot be carried."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list):
        return value
    if isinstance(value, int) and value not in _INTEGERS:
        raise ValueError("contains an integer of more than 64 bits: send it as text")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError("contains a number that JSON does not have (NaN or infinity): send another value")
    return []


def _check_object(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    check_json(value)
    return value


JsonObject = Annotated[dict[str, JsonValue], AfterValidator(_check_object)]
"""JSON object with at most 64 levels and integers of at most 64 bits."""


class FloatMatrix(Message):
    """`count` rows of `dim` float32 values: a list of rows in JSON, `{dim, count, data}` in msgpack."""

    dim: int = Field(ge=1)
    count: int = Field(ge=0)
    data: bytes
    """Rows one after another, little-endian float32, `count * dim * 4` bytes."""

    @model_validator(mode="before")
    @classmethod
    def _from_rows(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        if not value or not all(isinstance(row, list) and len(row) == len(value[0]) for row in value):
            raise ValueError("is not a matrix: send a list of rows of the same length")
        floats = array("f", (number for row in value for number in row))
        if sys.byteorder == "big":
            floats.byteswap()
        return {"dim": len(value[0]), "count": len(value), "data": floats.tobytes()}

    @model_validator(mode="after")
    def _size_fits(self) -> Self:
        if len(self.data) != self.count * self.dim * 4:
            raise ValueError(f"{self.count} x {self.dim} float32 values need {self.count * self.dim * 4} bytes")
        return self

    def to_rows(self) -> list[list[float]]:
        """Return the matrix as rows of Python floats."""
        floats = array("f")
        floats.frombytes(self.data)
        if sys.byteorder == "big":
            floats.byteswap()
        return [floats[at : at + self.dim].tolist() for at in range(0, len(floats), self.dim)]

    @model_serializer(mode="wrap", when_used="json")
    def _as_rows(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> list[list[float]]:
        return self.to_rows()


class Content(Message):
    """Bytes, inline when they are small, in the object store otherwise."""

    size_bytes: int = Field(ge=0)
    sha256: str
    """SHA-256 of the bytes, in hexadecimal."""
    inline: Blob | None = None
    """The bytes. Exactly one of `inline` and `object_name` is set."""
    object_name: str | None = None
    """Name of the object that holds the bytes, in the bucket that the request names."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.inline is None) == (self.object_name is None):
            raise ValueError("give either `inline` or `object_name`")
        return self
