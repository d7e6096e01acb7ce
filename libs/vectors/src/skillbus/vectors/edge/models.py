"""Qdrant's models as Qdrant Edge's classes and back.

Total for what the port takes: what has no translation here raises `QueryUnsupported` with its name, so that nothing
asked for is left out in silence.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

import qdrant_edge as edge
from pydantic import BaseModel
from qdrant_client import models

from skillbus.vectors.checks import check_ids, named_vectors
from skillbus.vectors.edge.payload import packed, unpacked
from skillbus.vectors.errors import QueryUnsupported, VectorStoreRejected
from skillbus.vectors.store import DENSE, LEXICAL, CollectionSpec, PayloadFields

ModelT = TypeVar("ModelT", bound=BaseModel)

DEFAULT_LIMIT: Final = 10
"""Of a query that names none, as on the server."""

_EXACT: Final = edge.SearchParams(exact=True)
"""Whatever the size: filtered HNSW without payload links found .002 of the true neighbours."""
_SCAN: Final = edge.SearchParams(
    quantization=edge.QuantizationSearchParams(ignore=False, rescore=True, oversampling=4.0)
)
"""All points by their quantized vectors, and the best four times as many as are asked for by their own: a quarter of
the time of an exact scan. 300 requests among 50,000 tools found each of their 32 nearest, at twice as many too."""
_QUANTIZED_DIM: Final = 128
"""Shorter vectors keep too little when they are quantized, and are scanned quickly as they are."""


def edge_config(spec: CollectionSpec) -> edge.EdgeConfig:
    """The two vectors of every collection; nothing is indexed, since nothing is ever optimized.

    Dense vectors are quantized beside, as they come: TurboQuant, some 200 bytes of 512 dimensions.
    One thread: a batch of queries went through the engine's pool a quarter slower on two cores. Payloads in memory:
    ten read from the disk's cache took 0.5 ms, so 0.2.
    """
    return edge.EdgeConfig(
        vectors={
            DENSE: edge.EdgeVectorParams(
                size=spec.dim,
                distance=edge.Distance.Cosine,
                datatype=edge.VectorStorageDatatype.Float16,
                quantization_config=edge.TurboQuantQuantizationConfig(always_ram=True),
            )
        },
        sparse_vectors={LEXICAL: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        payload_memory=edge.Memory.Pinned,
        max_search_threads=1,
    )


def edge_point(point: models.PointStruct, dim: int, apart: frozenset[str]) -> edge.Point:
    """A point whose vectors were checked, the fields `apart` of its payload by themselves.

    Raises `VectorStoreRejected` unless its dense vector has `dim` numbers, and JSON can say its payload.
    """
    vectors: dict[str, list[float] | edge.SparseVector | list[list[float]]] = {}
    for name, vector in named_vectors(point).items():
        if isinstance(vector, models.SparseVector):
            vectors[name] = edge.SparseVector(vector.indices, vector.values)
        elif isinstance(vector, list):
            check_dim(vector, dim)
            vectors[name] = vector
    return edge.Point(point.id, vectors, packed(point, apart))


def check_dim(vector: Sequence[object], dim: int) -> None:
    """A dense vector has `dim` numbers."""
    if len(vector) != dim:
        raise VectorStoreRejected(f"the collection holds dense vectors of dimension {dim}, not {len(vector)}")


def limit_of(request: models.QueryRequest) -> int:
    """How many points a query asks for."""
    return DEFAULT_LIMIT if request.limit is None else request.limit


def edge_query(
    request: models.QueryRequest,
    dim: int,
    condition: edge.Filter | None = None,
    *,
    exact: bool = False,
    limit: int | None = None,
) -> edge.QueryRequest:
    """A nearest-neighbour query whose vector was checked; `exact` for a few points, which need no shortcut.

    `condition` stands for the request's filter, translated; `limit` for its limit, if it is given.
    """
    _check_unsupported(request)
    return edge.QueryRequest(
        query=_nearest(request.query, dim),
        limit=limit or limit_of(request),
        offset=request.offset,
        filter=condition,
        score_threshold=request.score_threshold,
        params=_EXACT if exact or dim < _QUANTIZED_DIM else _SCAN,
    )


def _nearest(query: object, dim: int) -> edge.Query:
    match query:
        case models.SparseVector(indices=indices, values=values):
            return edge.Query.Nearest(edge.SparseVector(indices, values), using=LEXICAL)
        case list() as numbers:
            check_dim(numbers, dim)
            return edge.Query.Nearest(numbers, using=DENSE)
        case other:
            raise QueryUnsupported(f"a query of type {type(other).__name__}")


def _check_unsupported(request: models.QueryRequest) -> None:
    for name in ("shard_key", "lookup_from", "prefetch"):
        if getattr(request, name) is not None:
            raise QueryUnsupported(f"query.{name}")
    if request.params is not None:
        _check_params(request.params)


def _check_params(params: models.SearchParams) -> None:
    """`exact`, `hnsw_ef` and `acorn` ask for more accuracy than a graph gives; the exact scan has it already."""
    for name in ("quantization", "indexed_only", "idf"):
        if getattr(params, name):
            raise QueryUnsupported(f"query.params.{name}")


def edge_filter(condition: models.Filter | None) -> edge.Filter | None:
    """A filter of `must`, `should` and `must_not`, nested to any depth."""
    if condition is None:
        return None
    if condition.min_should is not None:
        raise QueryUnsupported("filter.min_should")
    return edge.Filter(
        must=_conditions(condition.must),
        should=_conditions(condition.should),
        must_not=_conditions(condition.must_not),
    )


def _conditions(given: Sequence[models.Condition] | models.Condition | None) -> "list[edge.ConditionType] | None":
    if given is None:
        return None
    return [_condition(one) for one in ([given] if isinstance(given, BaseModel) else given)]


def _condition(condition: models.Condition) -> "edge.ConditionType":
    match condition:
        case models.Filter():
            return edge_filter(condition) or edge.Filter()
        case models.HasIdCondition():
            check_ids(condition.has_id)
            return edge.HasIdCondition(set(condition.has_id))
        case models.FieldCondition():
            return _field_condition(condition)
        case models.IsEmptyCondition():
            return edge.IsEmptyCondition(condition.is_empty.key)
        case _:
            raise QueryUnsupported(f"filter condition {type(condition).__name__}")


def _field_condition(condition: models.FieldCondition) -> edge.FieldCondition:
    asked = {name for name in models.FieldCondition.model_fields if getattr(condition, name) is not None} - {"key"}
    if len(asked) != 1:
        raise VectorStoreRejected(
            f"the condition on {condition.key!r} needs one of match and range, not {sorted(asked)}"
        )
    if asked == {"match"}:
        return edge.FieldCondition(condition.key, match=_match(condition.match))
    if asked == {"range"}:
        return edge.FieldCondition(condition.key, range=_range(condition.range))
    raise QueryUnsupported(f"filter condition field.{asked.pop()}")


def _match(match: models.Match | None) -> edge.MatchValue | edge.MatchAny:
    if isinstance(match, models.MatchValue):
        return edge.MatchValue(match.value)
    if isinstance(match, models.MatchAny):
        return edge.MatchAny(match.any)
    raise QueryUnsupported(f"filter condition field.match of type {type(match).__name__}")


def _range(given: models.RangeInterface | None) -> edge.RangeFloat:
    if isinstance(given, models.Range):
        return edge.RangeFloat(gte=given.gte, gt=given.gt, lte=given.lte, lt=given.lt)
    raise QueryUnsupported(f"filter condition field.range of type {type(given).__name__}")


def record(point: edge.Record, wanted: PayloadFields) -> models.Record:
    """A stored point, its id as text. What the engine gives is not validated again: that took half the time."""
    payload, vector = unpacked(point.payload, wanted), _vectors(point.vector)
    return _unvalidated(
        models.Record,
        {"id": str(point.id), "payload": payload, "vector": vector, "shard_key": None, "order_value": None},
    )


def _vectors(vectors: "edge.Vector | None") -> dict[str, models.VectorOutput] | None:
    if not isinstance(vectors, Mapping):
        return None  # not asked for: every vector here has a name
    return {name: _vector(vector) for name, vector in vectors.items()}


def _vector(vector: "edge.NamedVector") -> models.VectorOutput:
    if isinstance(vector, edge.SparseVector):
        return _unvalidated(models.SparseVector, {"indices": vector.indices, "values": vector.values})
    return vector


def _unvalidated(kind: type[ModelT], fields: dict[str, object]) -> ModelT:
    """What `model_construct` makes of all fields of a model, in a third of its time: it looks for their defaults."""
    made, put = kind.__new__(kind), object.__setattr__
    put(made, "__dict__", fields)
    put(made, "__pydantic_fields_set__", set(fields))
    put(made, "__pydantic_extra__", None)
    put(made, "__pydantic_private__", None)
    return made


def text_offset(offset: int | UUID | str | None) -> str | None:
    """Where the next page of a scroll starts."""
    return None if offset is None else str(offset)
