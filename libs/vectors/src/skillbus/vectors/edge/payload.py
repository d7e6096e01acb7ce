"""Payloads as Qdrant Edge keeps them: what is filtered by as it is, and the rest as one text of JSON.

The engine takes a value for each other type before it takes it for a text, and each time raises Python's exceptions: a
text costs 4 µs, a list 6 and its texts 4 each. Writing a tool took a third less time with most of them in one text.
Points that were written before have each field by itself, and are read as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json
from qdrant_client import models

from skillbus.vectors.checks import json_text
from skillbus.vectors.store import PayloadFields

PACKED: Final = "packed-fields"
"""Where the text is."""


def fields_of(keys: Iterable[str]) -> frozenset[str]:
    """The fields that stay by themselves: those that a key, which may be dotted, begins in."""
    return frozenset(key.partition(".")[0] for key in keys)


def packed(point: models.PointStruct, apart: frozenset[str]) -> dict[str, JsonValue] | None:
    """A payload with all but the fields `apart` in one text. Raises `VectorStoreRejected` unless JSON can say it."""
    if point.payload is None:
        return None
    kept = {name: value for name, value in point.payload.items() if name in apart}
    rest = {name: value for name, value in point.payload.items() if name not in apart}
    json_text(point.id, kept)
    return {**kept, PACKED: json_text(point.id, rest)} if rest else kept


def unpacked(payload: Mapping[str, JsonValue] | None, wanted: PayloadFields = True) -> dict[str, JsonValue] | None:
    """The payload as it was written, or what is wanted of it: the engine took longer to cut it, without a text too."""
    if payload is None:
        return None
    kept = dict(payload)
    kept.pop(PACKED, None)
    whole = {**rest_of(payload), **kept}
    return whole if isinstance(wanted, bool) else _those_of(whole, wanted)


def rest_of(payload: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What is in the text."""
    text = payload.get(PACKED)
    rest: dict[str, JsonValue] = from_json(text) if isinstance(text, str) else {}
    return rest


def _those_of(payload: Mapping[str, JsonValue], names: Sequence[str]) -> dict[str, JsonValue]:
    found = {name: payload[name] for name in names if name in payload}
    dotted = [name.split(".") for name in names if "." in name]
    return {**_cut(payload, dotted), **found} if dotted else found


def _cut(fields: Mapping[str, JsonValue], paths: Sequence[Sequence[str]]) -> dict[str, JsonValue]:
    """What paths lead to, as the engine cuts it: what is no object is kept without what it holds."""
    found: dict[str, JsonValue] = {}
    for name, value in fields.items():
        deeper = [path[1:] for path in paths if path[0] == name]
        if deeper and all(deeper) and isinstance(value, dict):
            found[name] = _cut(value, deeper)
        elif deeper:
            found[name] = [] if all(deeper) and isinstance(value, list) else value
    return found
