"""Translation of the port's values into Qdrant Edge's classes and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

import qdrant_edge as edge
from pydantic import JsonValue
from pydantic_core import from_json

from skillbus.vectors import models
from skillbus.vectors.checks import check_ids, dump_payload
from skillbus.vectors.errors import VectorStoreRejected
from skillbus.vectors.store import DENSE, LEXICAL, CollectionSpec, PayloadFields

DEFAULT_LIMIT: Final = 10
"""Limit of a query without one, as on the server."""

_EXACT: Final = edge.SearchParams(exact=True)
"""Exact at any size: filtered HNSW without payload links found .002 of the true neighbours."""
_SCAN: Final = edge.SearchParams(
    quantization=edge.QuantizationSearchParams(ignore=False, rescore=True, oversampling=4.0)
)
"""Scan of the quantized vectors; the best four times as many as requested are scored by their own vectors. It takes a
quarter of the time of an exact scan. 300 requests among 50,000 tools found each of their 32 nearest, also with twice as
many."""
_QUANTIZED_DIM: Final = 128
"""Shorter vectors lose too much by quantization, and their exact scan is fast."""
PACKED: Final = "packed-fields"
"""Payload field of one text of JSON with all fields that are not filtered by.

The engine tries every other type before text, and raises a Python exception for each: a text costs 4 µs, a list 6 µs
and 4 µs for each of its texts. Writing a tool took a third less time with most of its fields in one text.
Older points have every field by itself; both forms are read.
"""


def build_config(spec: CollectionSpec, *, in_memory_disk: bool) -> edge.EdgeConfig:
    """Return the configuration of a collection's two vectors, without a graph: it would need `optimize()`.

    Dense vectors are also quantized as they arrive: TurboQuant, some 200 bytes for 512 dimensions.
    One thread: a batch of queries took a quarter longer in the engine's pool on two cores. Payloads are not read ahead:
    that would keep 32 MB in memory for an empty collection, and saves 0.3 ms for the first reading of ten payloads.
    On a disk in memory, vectors are not read ahead either: that would allocate the sparse files.
    """
    memory = edge.Memory.Cold if in_memory_disk else None
    return edge.EdgeConfig(
        vectors={
            DENSE: edge.EdgeVectorParams(
                size=spec.dim,
                distance=edge.Distance.Cosine,
                datatype=edge.VectorStorageDatatype.Float16,
                quantization_config=edge.TurboQuantQuantizationConfig(memory=memory or edge.Memory.Pinned),
                memory=memory,
            )
        },
        sparse_vectors={LEXICAL: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        payload_memory=edge.Memory.Cold,
        max_search_threads=1,
    )


def translate_point(point: models.PointStruct, dim: int, apart: frozenset[str]) -> edge.Point:
    """Translate a point with checked vectors; the payload fields `apart` are stored by themselves.

    Raises `VectorStoreRejected` if its dense vector has not `dim` numbers, or its payload is not JSON.
    """
    vectors: dict[str, list[float] | edge.SparseVector | list[list[float]]] = {}
    for name, vector in point.vector.items():
        if isinstance(vector, models.SparseValues):
            vectors[name] = edge.SparseVector(vector.indices, vector.values)
        else:
            check_dim(vector, dim)
            vectors[name] = vector
    return edge.Point(point.id, vectors, pack_payload(point, apart))


def check_dim(vector: Sequence[object], dim: int) -> None:
    if len(vector) != dim:
        raise VectorStoreRejected(f"the collection holds dense vectors of dimension {dim}, not {len(vector)}")


def get_limit(request: models.QueryRequest) -> int:
    return DEFAULT_LIMIT if request.limit is None else request.limit


def translate_query(
    request: models.QueryRequest,
    dim: int,
    condition: edge.Filter | None = None,
    *,
    exact: bool = False,
    limit: int | None = None,
) -> edge.QueryRequest:
    """Translate a nearest-neighbour query with a checked vector. `exact` scores every point by its own vector.

    `condition` is the request's filter, translated. `limit` overrides the request's.
    """
    return edge.QueryRequest(
        query=_nearest(request.query, dim),
        limit=limit or get_limit(request),
        offset=request.offset,
        filter=condition,
        score_threshold=request.score_threshold,
        params=_EXACT if exact or dim < _QUANTIZED_DIM else _SCAN,
    )


def _nearest(query: models.Vector, dim: int) -> edge.Query:
    if isinstance(query, models.SparseValues):
        return edge.Query.Nearest(edge.SparseVector(query.indices, query.values), using=LEXICAL)
    check_dim(query, dim)
    return edge.Query.Nearest(query, using=DENSE)


def translate_filter(condition: models.Filter | None) -> edge.Filter | None:
    """Translate a filter of `must`, `should` and `must_not`, nested to any depth."""
    if condition is None:
        return None
    return edge.Filter(
        must=_conditions(condition.must),
        should=_conditions(condition.should),
        must_not=_conditions(condition.must_not),
    )


def _conditions(given: Sequence[models.Condition] | None) -> "list[edge.ConditionType] | None":
    return None if given is None else [_condition(one) for one in given]


def _condition(condition: models.Condition) -> "edge.ConditionType":
    match condition:
        case models.Filter():
            return translate_filter(condition) or edge.Filter()
        case models.HasIdCondition(ids):
            check_ids(ids)
            return edge.HasIdCondition(set(ids))
        case models.IsEmptyCondition(key):
            return edge.IsEmptyCondition(key)
        case models.FieldCondition(key, models.MatchValue(value), None):
            return edge.FieldCondition(key, match=edge.MatchValue(value))
        case models.FieldCondition(key, models.MatchAny(values), None):
            return edge.FieldCondition(key, match=edge.MatchAny(list(values)))
        case models.FieldCondition(key, None, models.Range() as given):
            bounds = edge.RangeFloat(gte=given.gte, gt=given.gt, lte=given.lte, lt=given.lt)
            return edge.FieldCondition(key, range=bounds)
        case models.FieldCondition(key):
            raise VectorStoreRejected(f"the condition on {key!r} needs exactly one of match and range")


def translate_record(point: edge.Record, wanted: PayloadFields) -> models.Record:
    """Translate a stored point."""
    vectors: dict[str, models.Vector] | None = None
    if isinstance(point.vector, Mapping):  # otherwise not requested
        vectors = {name: _read_vector(vector) for name, vector in point.vector.items()}
    return models.Record(str(point.id), unpack_payload(point.payload, wanted), vectors)


def _read_vector(vector: list[float] | list[list[float]] | edge.SparseVector) -> models.Vector:
    if isinstance(vector, edge.SparseVector):
        return models.SparseValues(vector.indices, vector.values)
    return vector  # type: ignore[return-value]  # no multivector is written


def format_offset(offset: int | UUID | str | None) -> str | None:
    return None if offset is None else str(offset)


def find_top_fields(keys: Iterable[str]) -> frozenset[str]:
    """Return the top-level fields of keys, which may be dotted. These fields are stored by themselves."""
    return frozenset(key.partition(".")[0] for key in keys)


def pack_payload(point: models.PointStruct, apart: frozenset[str]) -> dict[str, JsonValue] | None:
    """Return a payload with all but the fields `apart` in one text. Raises `VectorStoreRejected` if it is not JSON."""
    if point.payload is None:
        return None
    kept = {name: value for name, value in point.payload.items() if name in apart}
    rest = {name: value for name, value in point.payload.items() if name not in apart}
    dump_payload(point.id, kept)
    return {**kept, PACKED: dump_payload(point.id, rest)} if rest else kept


def unpack_payload(
    payload: Mapping[str, JsonValue] | None, wanted: PayloadFields = True
) -> dict[str, JsonValue] | None:
    """Return the payload as it was written, or the wanted fields. The engine itself takes longer to select fields."""
    if payload is None:
        return None
    kept = dict(payload)
    kept.pop(PACKED, None)
    whole = {**read_packed(payload), **kept}
    if isinstance(wanted, bool):
        return whole
    found = {name: whole[name] for name in wanted if name in whole}
    dotted = [name.split(".") for name in wanted if "." in name]
    return {**_cut(whole, dotted), **found} if dotted else found


def read_packed(payload: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    text = payload.get(PACKED)
    rest: dict[str, JsonValue] = from_json(text) if isinstance(text, str) else {}
    return rest


def _cut(fields: Mapping[str, JsonValue], paths: Sequence[Sequence[str]]) -> dict[str, JsonValue]:
    """Return the fields at these paths as the engine selects them: a list on the way to a deeper field is empty."""
    found: dict[str, JsonValue] = {}
    for name, value in fields.items():
        deeper = [path[1:] for path in paths if path[0] == name]
        if deeper and all(deeper) and isinstance(value, dict):
            found[name] = _cut(value, deeper)
        elif deeper:
            found[name] = [] if all(deeper) and isinstance(value, list) else value
    return found
