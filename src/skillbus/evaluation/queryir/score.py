"""Comparison of parsed sentences with the QueryIR that they mean, field by field.

Texts are compared without their case, white space and script (简体 and 繁體 are alike). Scopes and references are sets.
A name alone decides which device is meant, so that a row that accepts `name_or_scope` is right with the name of a
device, and with its room and type in place of the name.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.indexer.devices import Device
from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.evaluation.queryir.rows import AcceptedValues, SentenceRow
from skillbus.queryir.writing import fold_name

_NOTHING_ACCEPTED: Final = AcceptedValues()


@dataclass(frozen=True, slots=True)
class WrongField:
    """Field of a parsed sentence that is not right."""

    field: str
    expected: str
    found: str


def compare_queries(row: SentenceRow, found: Sequence[QueryIR], devices: Sequence[Device]) -> tuple[WrongField, ...]:
    """Return the wrong fields of a parsed sentence. `devices` are those of its home.

    A row means one command: with none or several, the only wrong field is `queries`.
    """
    if len(found) != 1:
        return (WrongField("queries", "1", str(len(found))),)
    query, expected, accepted = found[0], row.ir, row.accept or _NOTHING_ACCEPTED
    right = {
        "action": (query.action, (expected.action, *accepted.action)),
        "action_code": (query.action_code, (expected.action_code, *accepted.action_code)),
        "quantifier": (query.quantifier, (expected.quantifier, *accepted.quantifier)),
    }
    wrong = [
        WrongField(field, _join(values[:1]), _join([value]))
        for field, (value, values) in right.items()
        if not _is_among(value, values)
    ]
    wrong += _compare_targets(row, query, devices)
    excluded = [expected.scope_exclude]
    if accepted.scope_exclude_kind is not None:
        excluded.append((accepted.scope_exclude_kind.rpartition(":")[2],))
    if not any(_are_same(query.scope_exclude, words) for words in excluded):
        wrong.append(WrongField("scope_exclude", _join(expected.scope_exclude), _join(query.scope_exclude)))
    if not _are_same(query.references, expected.references):
        wrong.append(WrongField("references", _join(expected.references), _join(query.references)))
    return tuple(wrong)


def _compare_targets(row: SentenceRow, query: QueryIR, devices: Sequence[Device]) -> list[WrongField]:
    """Compare the fields that say which devices are meant: name, type and rooms."""
    expected, accepted = row.ir, row.accept or _NOTHING_ACCEPTED
    names, types = (expected.name_hint, *accepted.name), (expected.type_hint, *accepted.type)
    if accepted.name_or_scope and _is_name_or_scope(row, query, names, types, devices):
        return []
    wrong = []
    if not _is_among(query.name_hint, names):
        wrong.append(WrongField("name_hint", _join(names[:1]), _join([query.name_hint])))
    if not _is_among(query.type_hint, types):
        wrong.append(WrongField("type_hint", _join(types[:1]), _join([query.type_hint])))
    if not _are_same(query.scope_include, expected.scope_include):
        wrong.append(WrongField("scope_include", _join(expected.scope_include), _join(query.scope_include)))
    return wrong


def _is_name_or_scope(
    row: SentenceRow,
    query: QueryIR,
    names: Collection[str | None],
    types: Collection[str | None],
    devices: Sequence[Device],
) -> bool:
    """Return True if the query has the name of a device, or its room and type in place of the name."""
    spoken = [name for name in names if name is not None]
    named = [device for device in devices if any(_is_among(name, spoken) for name in (device.name, *device.aliases))]
    rooms = [row.ir.scope_include, *((device.room,) for device in named if device.room is not None)]
    kinds = [*(it for it in types if it is not None), *(device.type for device in named)]
    in_room = any(_are_same(query.scope_include, room) for room in rooms if room)
    if query.name_hint is None:
        return in_room and _is_among(query.type_hint, kinds)
    return (
        _is_among(query.name_hint, spoken)
        and (in_room or not query.scope_include)
        and _is_among(query.type_hint, (None, *kinds))
    )


def _is_among(value: str | None, values: Iterable[str | None]) -> bool:
    return _fold(value) in {_fold(it) for it in values}


def _are_same(one: Iterable[str], other: Iterable[str]) -> bool:
    return {_fold(it) for it in one} == {_fold(it) for it in other}


def _fold(text: str | None) -> str | None:
    return None if text is None else fold_name(text)


def _join(values: Iterable[str | None]) -> str:
    return ", ".join(str(it) for it in values if it is not None) or "-"
