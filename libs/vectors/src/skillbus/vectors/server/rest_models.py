"""Translation of the port's values into the models of Qdrant's client and back.

Vectors and payloads are checked before, and not validated again: that took as long as writing the points.
"""

from collections.abc import Sequence

from qdrant_client import models as qdrant

from skillbus.vectors import checks, models


def translate_point(point: models.PointStruct) -> qdrant.PointStruct:
    vectors: dict[str, qdrant.Vector] = {name: _translate_vector(vector) for name, vector in point.vector.items()}
    return qdrant.PointStruct.model_construct(id=point.id, vector=vectors, payload=point.payload)


def translate_query(request: models.QueryRequest) -> qdrant.QueryRequest:
    return qdrant.QueryRequest(
        query=_translate_vector(request.query),
        using=request.using,
        filter=translate_filter(request.filter),
        limit=request.limit,
        offset=request.offset,
        score_threshold=request.score_threshold,
    )


def translate_filter(condition: models.Filter | None) -> qdrant.Filter | None:
    """Translate a filter, nested to any depth."""
    if condition is None:
        return None
    return qdrant.Filter(
        must=_conditions(condition.must),
        should=_conditions(condition.should),
        must_not=_conditions(condition.must_not),
    )


def translate_record(record: qdrant.Record) -> models.Record:
    vectors: dict[str, models.Vector] | None = None
    if isinstance(record.vector, dict):  # otherwise not requested
        vectors = {name: _read_vector(vector) for name, vector in record.vector.items()}
    return models.Record(str(record.id), record.payload, vectors)


def _read_vector(vector: list[float] | list[list[float]] | qdrant.SparseVector) -> models.Vector:
    if isinstance(vector, qdrant.SparseVector):
        return models.SparseValues(vector.indices, vector.values)
    return vector  # type: ignore[return-value]  # no multivector is written


def _translate_vector(vector: models.Vector) -> qdrant.SparseVector | list[float]:
    if isinstance(vector, models.SparseValues):
        return qdrant.SparseVector.model_construct(indices=vector.indices, values=vector.values)
    return vector


def _conditions(given: Sequence[models.Condition] | None) -> list[qdrant.Condition] | None:
    return None if given is None else [_condition(one) for one in given]


def _condition(condition: models.Condition) -> qdrant.Condition:
    match condition:
        case models.Filter():
            return translate_filter(condition) or qdrant.Filter()
        case models.HasIdCondition(ids):
            checks.check_ids(ids)
            return qdrant.HasIdCondition(has_id=list(ids))
        case models.IsEmptyCondition(key):
            return qdrant.IsEmptyCondition(is_empty=qdrant.PayloadField(key=key))
        case models.FieldCondition(key, match, bounds):
            return qdrant.FieldCondition(key=key, match=_match(match), range=_range(bounds))


def _match(given: models.MatchValue | models.MatchAny | None) -> qdrant.MatchValue | qdrant.MatchAny | None:
    match given:
        case models.MatchValue(value):
            return qdrant.MatchValue(value=value)
        case models.MatchAny(values):
            return qdrant.MatchAny(any=list(values))
        case None:
            return None


def _range(given: models.Range | None) -> qdrant.Range | None:
    return None if given is None else qdrant.Range(gte=given.gte, gt=given.gt, lte=given.lte, lt=given.lt)
