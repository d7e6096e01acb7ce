"""Checks that both adapters make before a call. Each raises `VectorStoreRejected`.

Each covers an argument that one engine refuses and the other accepts silently: Qdrant Edge 0.9 stores NaN and sparse
vectors with repeated indices or fewer values than indices, and writes a point of the wrong dimension to its log before
it refuses it.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from skillbus.vectors import models
from skillbus.vectors.errors import CollectionMissing, VectorStoreRejected
from skillbus.vectors.store import DENSE, LEXICAL, CollectionSpec

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_MAX_SPARSE_INDEX: Final = 2**32 - 1
_PLAIN_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def check_name(name: str) -> None:
    """Require a name that can also be the name of a directory and a part of a URL."""
    if not _NAME.fullmatch(name):
        raise VectorStoreRejected(
            f"{name!r} cannot name a collection: use 1 to 200 letters, digits, '.', '_' and '-', not starting with '.'"
        )


def check_creation(name: str, aliases: Collection[str]) -> None:
    """Refuse to create a collection under the name of an alias."""
    if name in aliases:
        raise VectorStoreRejected(f"{name!r} is an alias; choose another name for the collection")


def check_switch(targets: Mapping[str, str], collections: Collection[str]) -> None:
    """Require that the collections exist and that no alias has the name of one."""
    for alias, target in targets.items():
        check_name(alias)
        if target not in collections:
            raise CollectionMissing(target)
        if alias in collections:
            raise VectorStoreRejected(f"{alias!r} is a collection and cannot be an alias as well; choose another alias")


def check_spec(spec: CollectionSpec) -> None:
    """Require dense vectors of 1 to 65,536 numbers, which is Qdrant's limit."""
    if not 1 <= spec.dim <= 65_536:
        raise VectorStoreRejected(f"vectors of {spec.dim} dimensions cannot be stored; use 1 to 65536")


def check_ids(ids: Iterable[object]) -> None:
    """Require UUIDs as text."""
    for value in ids:
        if not _is_uuid(value):
            raise VectorStoreRejected(f"{value!r} is not a UUID; derive the id of a point with point_id()")


def check_points(points: Sequence[models.PointStruct]) -> None:
    """Require a UUID, known vectors and a payload that can be written as JSON of every point."""
    check_vectors(points)
    for point in points:
        dump_payload(point.id, point.payload)


def check_vectors(points: Sequence[models.PointStruct]) -> None:
    """Require a UUID and known vectors of every point."""
    check_ids(point.id for point in points)
    for point in points:
        for name, vector in point.vector.items():
            check_vector(name, vector)


def dump_payload(point: object, payload: object) -> str:
    """Return the payload of a point, or a part of it, as JSON."""
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise VectorStoreRejected(f"the payload of point {point} cannot be stored: {error}") from error
    return text


def check_fields(condition: models.Filter | None, fields: Collection[str]) -> None:
    """Require that a filter reads only the fields that the collection is indexed by."""
    if condition is None:
        return
    for clause in (condition.must, condition.should, condition.must_not):
        for one in clause or ():
            if isinstance(one, models.Filter):
                check_fields(one, fields)
            elif isinstance(one, models.FieldCondition | models.IsEmptyCondition) and one.key not in fields:
                raise VectorStoreRejected(
                    f"{one.key!r} cannot be filtered by; name it among the keywords or numbers of its collection"
                )


def check_queries(requests: Sequence[models.QueryRequest]) -> None:
    """Require that each query asks one of the two vectors for at least one point."""
    for request in requests:
        check_vector(request.using, request.query)
        if request.limit is not None and request.limit < 1:
            raise VectorStoreRejected(f"a limit of {request.limit} asks for nothing; ask for at least 1 point")
        if request.offset is not None and request.offset < 0:
            raise VectorStoreRejected(f"an offset of {request.offset} lies before the first point")


def check_page(limit: int, offset: str | None) -> None:
    """Require a page of at least one point that starts at an id."""
    if limit < 1:
        raise VectorStoreRejected(f"a page of {limit} points has no next one; ask for at least 1")
    if offset is not None:
        check_ids([offset])


def check_deletion(condition: models.Filter) -> None:
    """Refuse an empty filter, which would delete every point: `delete_collection` is for that."""
    if not (condition.must or condition.should or condition.must_not):
        raise VectorStoreRejected("a deletion needs a condition; delete the collection to delete every point")


def check_vector(name: str | None, vector: object) -> None:
    """Require that a vector has the form of its name and only finite numbers."""
    match name, vector:
        case "dense", list():
            finite = _finite(vector)
        case "lexical", models.SparseValues(indices=indices, values=values):
            if len(indices) != len(values) or len(set(indices)) != len(indices):
                raise VectorStoreRejected("a sparse vector needs as many distinct indices as values")
            if indices and not 0 <= min(indices) <= max(indices) <= _MAX_SPARSE_INDEX:
                raise VectorStoreRejected("an index of a sparse vector lies outside 0 to 2**32 - 1")
            finite = _finite(values)
        case _:
            raise VectorStoreRejected(
                f"vector {name!r} of type {type(vector).__name__} is not stored here; "
                f"use {DENSE!r} with a list of floats or {LEXICAL!r} with SparseValues"
            )
    if not finite:
        raise VectorStoreRejected(f"vector {name!r} holds NaN, infinity or something that is not a number")


def _finite(values: Sequence[object]) -> bool:
    """Return whether all values are finite, in one pass in C: the sum is finite only if they are, short of overflow."""
    try:
        return math.isfinite(sum(values))  # type: ignore[arg-type]  # values that cannot be added are refused
    except TypeError:
        return False


def _is_uuid(value: object) -> bool:
    if not isinstance(value, str):
        return False
    if _PLAIN_UUID.fullmatch(value):  # nearly all ids; a match in C
        return True
    try:
        UUID(value)
    except ValueError:
        return False
    return True
