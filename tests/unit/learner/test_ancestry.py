"""Which project inherits from which."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.learner.domain.errors import ProjectsError
from skillbus.learner.domain.projects import LEVELS, assign_parent, list_ancestors

NAMES = st.sampled_from("abcdefghijkl")


def test_those_above_come_nearest_first() -> None:
    assert list_ancestors("a", {"a": "b", "b": "c", "x": "a"}) == ("b", "c")
    assert list_ancestors("c", {"a": "b"}) == ()


def test_a_table_that_holds_a_circle_is_read_to_an_end() -> None:
    assert list_ancestors("a", {"a": "b", "b": "c", "c": "b"}) == ("b", "c")


@pytest.mark.parametrize(("project", "parent"), [("a", "a"), ("c", "a"), ("b", "a")])
def test_a_circle_is_refused(project: str, parent: str) -> None:
    with pytest.raises(ProjectsError, match="cycle"):
        assign_parent(project, parent, {"a": "b", "b": "c"})


@given(st.lists(st.tuples(NAMES, NAMES), max_size=40))
def test_whatever_is_asked_for_every_project_comes_to_an_end_within_the_levels(wanted: list[tuple[str, str]]) -> None:
    parents: dict[str, str] = {}
    for project, parent in wanted:
        try:
            parents = dict(assign_parent(project, parent, parents))
        except ProjectsError:
            continue
    for project in parents:
        line = (project, *list_ancestors(project, parents))
        assert len(set(line)) == len(line) <= LEVELS + 1
        assert line[-1] not in parents
