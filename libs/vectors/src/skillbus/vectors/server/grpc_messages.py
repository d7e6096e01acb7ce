"""Translation of the port's values into the messages of Qdrant's gRPC interface and back.

Nothing is built in between: the client's own way through its REST models took two thirds of the time of a search.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import JsonValue
from qdrant_client import grpc as qdrant

from skillbus.vectors import checks, models
from skillbus.vectors.errors import VectorStoreRejected
from skillbus.vectors.store import PayloadFields, VectorNames

_DEFAULT_LIMIT: Final = 10
"""Limit of a query without one, as over REST."""


def make_id(point: str) -> qdrant.PointId:
    return qdrant.PointId(uuid=point)


def read_id(point: qdrant.PointId) -> str:
    return point.uuid or str(point.num)


def make_query(collection: str, request: models.QueryRequest) -> qdrant.QueryPoints:
    """Translate a nearest-neighbour query with a checked vector. Its hits are ids and scores."""
    return qdrant.QueryPoints(
        collection_name=collection,
        query=qdrant.Query(nearest=_make_input(request.query)),
        using=request.using,
        filter=make_filter(request.filter),
        limit=_DEFAULT_LIMIT if request.limit is None else request.limit,
        offset=request.offset,
        score_threshold=request.score_threshold,
    )


def _make_input(vector: models.Vector) -> qdrant.VectorInput:
    if isinstance(vector, models.SparseValues):
        return qdrant.VectorInput(sparse=qdrant.SparseVector(values=vector.values, indices=vector.indices))
    return qdrant.VectorInput(dense=qdrant.DenseVector(data=vector))


def make_point(point: models.PointStruct) -> qdrant.PointStruct:
    """Translate a point that is checked."""
    vectors = {name: _make_vector(vector) for name, vector in point.vector.items()}
    payload = {name: make_value(value) for name, value in (point.payload or {}).items()}
    named = qdrant.Vectors(vectors=qdrant.NamedVectors(vectors=vectors))
    return qdrant.PointStruct(id=make_id(point.id), vectors=named, payload=payload)


def _make_vector(vector: models.Vector) -> qdrant.Vector:
    if isinstance(vector, models.SparseValues):
        return qdrant.Vector(sparse=qdrant.SparseVector(values=vector.values, indices=vector.indices))
    return qdrant.Vector(dense=qdrant.DenseVector(data=vector))


def read_record(point: qdrant.RetrievedPoint) -> models.Record:
    vectors: dict[str, models.Vector] | None = None
    if point.HasField("vectors"):  # otherwise not requested
        found = point.vectors.vectors.vectors
        vectors = {name: _read_vector(found[name]) for name in found}
    return models.Record(read_id(point.id), read_payload(point.payload) or None, vectors)


def _read_vector(vector: qdrant.VectorOutput) -> models.Vector:
    match vector.WhichOneof("vector"):
        case "sparse":
            return models.SparseValues(list(vector.sparse.indices), list(vector.sparse.values))
        case "dense":
            return list(vector.dense.data)
        case _:  # servers before 1.17
            if vector.HasField("indices"):
                return models.SparseValues(list(vector.indices.data), list(vector.data))
            return list(vector.data)


def read_payload(fields: Mapping[str, qdrant.Value]) -> dict[str, Any]:
    return {name: _read_value(fields[name]) for name in fields}


def _read_value(value: qdrant.Value) -> JsonValue:
    match value.WhichOneof("kind"):
        case None | "null_value":
            return None
        case "list_value":
            return [_read_value(one) for one in value.list_value.values]
        case "struct_value":
            return read_payload(value.struct_value.fields)
        case kind:
            plain: JsonValue = getattr(value, kind)
            return plain


def make_value(value: JsonValue) -> qdrant.Value:
    match value:
        case None:
            return qdrant.Value(null_value=qdrant.NullValue.NULL_VALUE)
        case dict():
            fields = {name: make_value(one) for name, one in value.items()}
            return qdrant.Value(struct_value=qdrant.Struct(fields=fields))
        case list():
            return qdrant.Value(list_value=qdrant.ListValue(values=[make_value(one) for one in value]))
        case _:
            return _make_plain_value(value)


def _make_plain_value(value: str | float | bool) -> qdrant.Value:
    match value:
        case str():
            return qdrant.Value(string_value=value)
        case bool():
            return qdrant.Value(bool_value=value)
        case int() if -(2**63) <= value < 2**63:
            return qdrant.Value(integer_value=value)
        case _:  # the interface has no integers of more than 63 bits
            return qdrant.Value(double_value=float(value))


def select_payload(wanted: PayloadFields) -> qdrant.WithPayloadSelector:
    if isinstance(wanted, bool):
        return qdrant.WithPayloadSelector(enable=wanted)
    return qdrant.WithPayloadSelector(include=qdrant.PayloadIncludeSelector(fields=list(wanted)))


def select_vectors(wanted: VectorNames) -> qdrant.WithVectorsSelector:
    if isinstance(wanted, bool):
        return qdrant.WithVectorsSelector(enable=wanted)
    return qdrant.WithVectorsSelector(include=qdrant.VectorsSelector(names=list(wanted)))


def make_filter(condition: models.Filter | None) -> qdrant.Filter | None:
    """Translate a filter, nested to any depth."""
    if condition is None:
        return None
    return qdrant.Filter(
        must=_conditions(condition.must),
        should=_conditions(condition.should),
        must_not=_conditions(condition.must_not),
    )


def _conditions(given: Sequence[models.Condition] | None) -> list[qdrant.Condition] | None:
    return None if given is None else [_condition(one) for one in given]


def _condition(condition: models.Condition) -> qdrant.Condition:
    match condition:
        case models.Filter():
            return qdrant.Condition(filter=make_filter(condition))
        case models.HasIdCondition(ids):
            checks.check_ids(ids)
            return qdrant.Condition(has_id=qdrant.HasIdCondition(has_id=[make_id(one) for one in ids]))
        case models.IsEmptyCondition(key):
            return qdrant.Condition(is_empty=qdrant.IsEmptyCondition(key=key))
        case models.FieldCondition(key, match, bounds):
            field = qdrant.FieldCondition(key=key, match=_match(match), range=_range(bounds))
            return qdrant.Condition(field=field)


def _match(given: models.MatchValue | models.MatchAny | None) -> qdrant.Match | None:
    match given:
        case models.MatchValue(bool(value)):
            return qdrant.Match(boolean=value)
        case models.MatchValue(int(value)):
            return qdrant.Match(integer=value)
        case models.MatchValue(str(value)):
            return qdrant.Match(keyword=value)
        case models.MatchAny(values):
            return qdrant.Match(keywords=qdrant.RepeatedStrings(strings=list(values)))
        case None:
            return None
        case _:
            raise VectorStoreRejected(
                f"a field is compared with a text, an integer or a truth value, not with {given!r}"
            )


def _range(given: models.Range | None) -> qdrant.Range | None:
    return None if given is None else qdrant.Range(gte=given.gte, gt=given.gt, lte=given.lte, lt=given.lt)
