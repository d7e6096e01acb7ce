"""Payloads as Qdrant Edge stores them: fields that are filtered by as they are, and the rest as one text of JSON.

The engine tries every other type before text, and raises a Python exception for each: a text costs 4 µs, a list 6 µs
and 4 µs for each of its texts. Writing a tool took a third less time with most of its fields in one text.
Older points have every field by itself; both forms are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json
from qdrant_client import models

from skillbus.vectors.checks import dump_payload
from skillbus.vectors.store import PayloadFields

PACKED: Final = "packed-fields"
"""Field of the text."""


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
    return whole if isinstance(wanted, bool) else _those_of(whole, wanted)


def read_packed(payload: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the fields in the text."""
    text = payload.get(PACKED)
    rest: dict[str, JsonValue] = from_json(text) if isinstance(text, str) else {}
    return rest


def _those_of(payload: Mapping[str, JsonValue], names: Sequence[str]) -> dict[str, JsonValue]:
    found = {name: payload[name] for name in names if name in payload}
    dotted = [name.split(".") for name in names if "." in name]
    return {**_cut(payload, dotted), **found} if dotted else found


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
