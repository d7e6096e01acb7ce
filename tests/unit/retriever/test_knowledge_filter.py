"""The filter of the index lets everything pass that the record may show, and little else."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillbus.contracts.learner.index import FindKnowledge, KnowledgeFilter
from skillbus.contracts.learner.knowledge import KNOWN_TYPES, KnowledgeItem
from skillbus.contracts.scope import match_scope, normalize_scope
from skillbus.retriever.adapters.vector_knowledge import group_scopes, make_knowledge_filter
from skillbus.retriever.domain.knowledge.ports import WantedKnowledge
from skillbus.vectors import models

from ...knowledge_record import NOW, Record, item, point_of

NOTHING = models.SparseValues(indices=[1], values=[1.0])
SEGMENTS = st.lists(st.sampled_from(["api", "live", "rooms", "*"]), max_size=4)
SCOPES = st.builds(
    lambda prefix, parts: normalize_scope(prefix + "/".join(parts)) if parts else "",
    st.sampled_from(["/", "module:", ""]),
    SEGMENTS,
)
MOMENTS = st.none() | st.sampled_from([NOW + timedelta(days=days) for days in (-1, 0, 1)])


def passes(one: KnowledgeItem, asked: KnowledgeFilter, projects: tuple[str, ...] = ("default",)) -> bool:
    wanted = WantedKnowledge(asked, projects, (asked.at or NOW).timestamp(), 20)
    payload = point_of(one, NOTHING).payload
    assert payload is not None
    filters = [make_knowledge_filter(wanted, group) for group in group_scopes(asked.scope) or [[]]]
    return any(_holds(one, payload) for one in filters)


def _holds(condition: models.Filter, payload: Mapping[str, object]) -> bool:
    must, should = condition.must or [], condition.should or []
    assert isinstance(must, list)
    assert isinstance(should, list)
    return _all(must, payload) and (not should or any(_all([one], payload) for one in should))


def _all(conditions: Sequence[models.Condition], payload: Mapping[str, object]) -> bool:
    for one in conditions:
        assert isinstance(one, models.FieldCondition)
        value = payload[one.key]
        if isinstance(one.match, models.MatchValue | models.MatchAny):
            wanted = one.match.any if isinstance(one.match, models.MatchAny) else [one.match.value]
            if not {*wanted} & {*(value if isinstance(value, list) else [value])}:
                return False
        else:
            assert isinstance(one.range, models.Range)
            assert isinstance(value, float)
            if (one.range.lte is not None and value > one.range.lte) or (
                one.range.gt is not None and value <= one.range.gt
            ):
                return False
    return True


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_what_the_record_may_show_passes_the_filter(data: st.DataObject) -> None:
    one = item(
        1,
        project=data.draw(st.sampled_from(["default", "team-a", "team-b"])),
        type=data.draw(st.sampled_from(list(KNOWN_TYPES))),
        scope=data.draw(SCOPES),
        tags=data.draw(st.lists(st.sampled_from("abc"), unique=True)),
        source=data.draw(st.sampled_from(["manual", "import"])),
        valid_from=data.draw(MOMENTS),
        valid_to=data.draw(MOMENTS),
    )
    asked = KnowledgeFilter(
        project="team-a",
        types=tuple(data.draw(st.lists(st.sampled_from(list(KNOWN_TYPES)), max_size=2))),
        tags=tuple(data.draw(st.lists(st.sampled_from("abc"), max_size=2))),
        all_tags=tuple(data.draw(st.lists(st.sampled_from("abc"), max_size=2))),
        sources=tuple(data.draw(st.lists(st.sampled_from(["manual", "import"]), max_size=1))),
        scope=data.draw(st.none() | SCOPES),
        at=data.draw(MOMENTS),
    )
    record = Record(parents={"team-a": "default"}, now=lambda: NOW)
    record.put(one)
    fields = asked.model_dump(include=set(FindKnowledge.model_fields))
    answer = record.find(FindKnowledge.model_validate({**fields, "ids": [one.id]}))
    shown = bool(answer.items)
    passed = passes(one, asked, answer.projects)
    assert passed or not shown
    if asked.scope is None:
        assert passed is shown  # of a scope the filter knows the beginning only


@settings(max_examples=300, deadline=None)
@given(SCOPES, SCOPES)
def test_a_scope_that_says_something_about_another_passes_when_that_is_asked_for(scope: str, wanted: str) -> None:
    if match_scope(scope, wanted) is not None:
        assert passes(item(1, scope=scope), KnowledgeFilter(scope=wanted))


@pytest.mark.parametrize("other", ["/other", "/api/liver", "module:api", "/api/live/rooms/1", "/api/shop/*"])
def test_what_says_nothing_about_a_scope_is_kept_out_by_the_index(other: str) -> None:
    assert match_scope(other, "/api/live/rooms") is None
    assert not passes(item(1, scope=other), KnowledgeFilter(scope="/api/live/rooms"))
    assert passes(item(1, scope=other), KnowledgeFilter())


@pytest.mark.parametrize(
    ("wanted", "groups"),
    [
        ("/api/live/rooms", [["/api/live/rooms", "/api/live/rooms/*"], ["/api/live/*", "/api"], ["", "*/rooms"]]),
        ("/api/live/*", [["/api/live/*", "/api/live", "/api/live/rooms"], ["/api/*", "/api"], [""]]),
        ("module", [["module", "module/*"], [""]]),
        ("", [["", "*/rooms"]]),
    ],
)
def test_near_scopes_are_searched_apart_from_general_items(wanted: str, groups: list[list[str]]) -> None:
    asked = KnowledgeFilter(scope=wanted)
    filters = [
        make_knowledge_filter(WantedKnowledge(asked, ("default",), NOW.timestamp(), 20), group)
        for group in group_scopes(wanted)
    ]
    assert len(filters) == len(groups)
    for one, scopes in zip(filters, groups, strict=True):
        for scope in scopes:
            payload = point_of(item(1, scope=scope), NOTHING).payload
            assert payload is not None
            assert _holds(one, payload), (wanted, scope)
    general = point_of(item(1), NOTHING).payload
    assert general is not None
    assert [_holds(one, general) for one in filters] == [False] * (len(filters) - 1) + [True]
