"""Values of the port, named as Qdrant's models.

Qdrant's own are 350 pydantic models, whose import takes 0.4 s and 38 MB; only the adapter of the server imports them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue


@dataclass(slots=True)
class SparseValues:
    """Sparse vector: distinct indices, with values at the same positions."""

    indices: list[int]
    values: list[float]


Vector = list[float] | SparseValues
"""A dense or a sparse vector."""


@dataclass(slots=True)
class PointStruct:
    """A point to write."""

    id: str
    vector: dict[str, Vector]
    payload: dict[str, JsonValue] | None = None


@dataclass(slots=True)
class Record:
    """A stored point."""

    id: str
    payload: dict[str, Any] | None = None  # JSON of any shape: its reader knows what it wrote
    """None if it was not requested, or is empty on a server."""
    vector: dict[str, Vector] | None = None
    """None if it was not requested."""


@dataclass(frozen=True, slots=True)
class MatchValue:
    """The value of a field, or one of its list."""

    value: str | int | bool


@dataclass(frozen=True, slots=True)
class MatchAny:
    """Several values, of which the field has one."""

    any: Sequence[str]


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a number."""

    gte: float | None = None
    gt: float | None = None
    lte: float | None = None
    lt: float | None = None


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """Condition on a field: exactly one of `match` and `range`."""

    key: str
    match: MatchValue | MatchAny | None = None
    range: Range | None = None


@dataclass(frozen=True, slots=True)
class IsEmptyCondition:
    """Condition that a field is missing, null or an empty list."""

    key: str


@dataclass(frozen=True, slots=True)
class HasIdCondition:
    """Condition that a point is one of these."""

    has_id: Sequence[str]


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions of which all of `must`, one of `should` and none of `must_not` hold; empty ones do not count."""

    must: "Sequence[Condition] | None" = None
    should: "Sequence[Condition] | None" = None
    must_not: "Sequence[Condition] | None" = None


Condition = FieldCondition | IsEmptyCondition | HasIdCondition | Filter


@dataclass(slots=True)
class QueryRequest:
    """A nearest-neighbour query. A hit is an id and a score; `retrieve` returns what is stored there."""

    query: Vector
    using: str
    """Name of the vector."""
    filter: Filter | None = None
    limit: int | None = None
    """10 unless given."""
    offset: int | None = None
    score_threshold: float | None = None
