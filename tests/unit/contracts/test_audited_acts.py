"""What a fact of the audit log names of a request: ids and choices, and never its content."""

import types
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import pytest
from pydantic import AfterValidator, BaseModel, StringConstraints
from pydantic.fields import FieldInfo

from skillbus.contracts.audit_log import SUBJECT_CHARACTERS, SUBJECTS_MAX, AuditedAct, find_project, name_subjects
from skillbus.contracts.catalogue import ENDPOINTS
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.gateway.api_keys import KEY_ACTS, ApiKeyCreated, ApiKeyRevoked, CreateApiKey, RevokeApiKey
from skillbus.contracts.indexer.skills import UpdateSkill
from skillbus.contracts.indexer.tools import (
    AUDIT_INDEX,
    PUT_TOOLS,
    AuditIndex,
    PutTools,
    ToolPut,
    ToolPutOutcome,
    ToolsPut,
)
from skillbus.contracts.learner.bulk import PUT_KNOWLEDGE, PutKnowledge
from skillbus.contracts.learner.items import UPDATE_KNOWLEDGE, UpdateKnowledge
from skillbus.contracts.message import Message
from skillbus.contracts.network import normalize_place

AUDITED: Final = [endpoint for endpoint in ENDPOINTS if endpoint.act is not None]
ACTS: Final[Mapping[str, tuple[AuditedAct, type[Message], type[Message]]]] = {
    **{endpoint.name: (endpoint.act, endpoint.request, endpoint.reply) for endpoint in AUDITED if endpoint.act},
    "create_api_key": (KEY_ACTS["create_api_key"], CreateApiKey, ApiKeyCreated),
    "revoke_api_key": (KEY_ACTS["revoke_api_key"], RevokeApiKey, ApiKeyRevoked),
}
OWN_RULES: Final = {
    "made": {"id", "name", "ids"},
    "subject": {"id", "name", "ids", "alias", "sequence", "project", "source", "model", "call_id"},
    "details": {"home"},
}
"""Last names of the fields that name a thing."""


def find_field(model: type[BaseModel], path: str) -> FieldInfo:
    """The field at a path, through lists."""
    first, _, rest = path.partition(".")
    field = model.model_fields[first]
    if not rest:
        return field
    inner = next(
        kind for kind in list_types(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)
    )
    return find_field(inner, rest)


def list_types(annotation: object) -> Iterator[object]:
    """The types that a value can have, through lists, unions and annotations."""
    if get_origin(annotation) in {tuple, Union, types.UnionType, Annotated}:
        parts = get_args(annotation)
        for part in parts[:1] if get_origin(annotation) is Annotated else parts:
            yield from list_types(part)
    else:
        yield annotation


def is_choice(field: FieldInfo) -> bool:
    """True if a value is a choice from a closed set, or text of a pattern that holds no sentence."""
    kinds = [kind for kind in list_types(field.annotation) if kind not in {type(None), Ellipsis}]
    if all(kind is bool or get_origin(kind) is Literal for kind in kinds):
        return True
    if all(isinstance(kind, type) and issubclass(kind, StrEnum) for kind in kinds):
        return True
    rules = list(list_rules(field.annotation, field.metadata))
    return any(isinstance(rule, StringConstraints) and rule.pattern is not None for rule in rules) or any(
        isinstance(rule, AfterValidator) and rule.func is normalize_place for rule in rules
    )


def list_rules(annotation: object, metadata: object) -> Iterator[object]:
    yield from metadata if isinstance(metadata, list) else ()
    if get_origin(annotation) is Annotated:
        yield from annotation.__metadata__  # type: ignore[attr-defined]  # what Annotated has
    for part in get_args(annotation):
        yield from list_rules(part, [])


@pytest.mark.parametrize("name", sorted(ACTS))
def test_an_act_names_fields_that_exist_and_that_hold_ids_or_choices(name: str) -> None:
    act, request, reply = ACTS[name]
    if act.subject:
        assert act.subject in OWN_RULES["subject"]
        find_field(request, act.subject)
    if act.made:
        assert act.made.rpartition(".")[2] in OWN_RULES["made"]
        find_field(reply, act.made)
    for detail in act.details:
        model = request if detail in request.model_fields else reply
        field = find_field(model, detail)
        assert is_choice(field) or detail in OWN_RULES["details"], (name, detail, field)
    for flag in filter(None, (act.only_with, act.not_with)):
        assert find_field(request, flag).annotation is bool


def test_no_two_acts_have_one_name() -> None:
    assert len(ACTS) == len(AUDITED) + len(KEY_ACTS)


@pytest.mark.parametrize("endpoint", AUDITED, ids=lambda endpoint: endpoint.name)
def test_the_example_of_an_act_is_described_by_its_ids_alone(endpoint: Endpoint[Message, Message]) -> None:
    """Each text of the request that the act does not declare is replaced by a canary."""
    act = endpoint.act
    assert act is not None
    declared = {act.subject, *act.details, "project", "projects"}
    request = endpoint.request.model_validate(endpoint.example)
    planted = request.model_copy(
        update={name: plant(getattr(request, name)) for name in type(request).model_fields if name not in declared}
    )
    described = (act.list_subjects(planted, None), act.list_details(planted, None), find_project(planted, None))
    assert "canary" not in repr(described)


def plant(value: Any) -> Any:
    if isinstance(value, dict):
        return {f"canary {key}": plant(item) for key, item in value.items()} or {"canary": "canary"}
    if isinstance(value, tuple | list):
        return type(value)([*map(plant, value), "canary"])
    return "canary" if isinstance(value, str) or value is None else value


def test_what_changed_nothing_is_no_act() -> None:
    act = PUT_TOOLS.act
    assert act is not None
    request = PutTools(tools=({"id": "a"},))
    outcomes = (("a", ToolPutOutcome.UNCHANGED), ("b", ToolPutOutcome.CREATED), (None, ToolPutOutcome.REJECTED))
    mixed = ToolsPut(results=tuple(ToolPut(id=name, outcome=outcome) for name, outcome in outcomes), indexed=True)
    unchanged = ToolsPut(results=mixed.results[:1], indexed=True)
    assert act.list_subjects(request, mixed) == ["b"]
    assert act.list_subjects(request, unchanged) is None
    assert act.list_subjects(request, None) == []


def test_a_dry_run_and_an_audit_without_a_repair_are_no_acts() -> None:
    put, audit = PUT_KNOWLEDGE.act, AUDIT_INDEX.act
    assert put is not None
    assert audit is not None
    assert not put.changes_something(PutKnowledge(items=({},), dry_run=True))
    assert put.changes_something(PutKnowledge(items=({},)))
    assert not audit.changes_something(AuditIndex())
    assert audit.changes_something(AuditIndex(fix=True))


def test_a_change_names_the_fields_and_not_their_values() -> None:
    act = UPDATE_KNOWLEDGE.act
    assert act is not None
    changes = UpdateKnowledge(id="an-id", title="a title", content="canary", actor="lin")
    assert act.list_details(changes, None) == {"fields": ("actor", "content", "title")}


def test_names_are_cut_in_length_and_number() -> None:
    names = name_subjects(["n" * 1000] * 50)
    assert len(names) == SUBJECTS_MAX
    assert {len(name) for name in names} == {SUBJECT_CHARACTERS}


def test_the_project_of_a_key_is_that_of_its_making() -> None:
    assert find_project(CreateApiKey(label="x", projects=("a",)), None) == "a"
    assert find_project(CreateApiKey(label="x", projects=("a", "b")), None) is None
    assert find_project(CreateApiKey(label="x", projects=("*",)), None) is None
    assert find_project(UpdateSkill(project="p", name="n", description="d"), None) == "p"
