"""Lines of an import, as they come."""

from datetime import UTC, datetime

import pytest
from pydantic import JsonValue

from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.learner.domain.errors import UnfitError
from skillbus.learner.domain.import_line import ImportLine, parse_line

PLAIN: dict[str, JsonValue] = {"type": "business_rule", "title": "a title", "content": "some content"}


def read(source: str | None = None, **fields: JsonValue) -> ImportLine:
    return parse_line({**PLAIN, **fields}, source)


def test_a_line_of_the_data_is_taken_as_it_is() -> None:
    law = "妇女权益保障法"
    line = read(id=f"{law}#2022-10-30#第一条", tags=["社会法"], scope=law, lang="zh", valid_from="2022-10-30")
    assert line.draft.external_id == line.id == "妇女权益保障法#2022-10-30#第一条"
    assert line.draft.valid_from == datetime(2022, 10, 30, tzinfo=UTC)
    assert (line.draft.tags, line.draft.scope, line.draft.lang) == (("社会法",), "妇女权益保障法", "zh")


def test_an_external_id_is_preferred_to_the_id() -> None:
    line = read(id="own", external_id="theirs")
    assert (line.id, line.draft.external_id) == ("own", "theirs")


def test_an_id_can_be_a_number() -> None:
    assert read(id=7).draft.external_id == "7"


def test_a_line_needs_no_id() -> None:
    line = read()
    assert (line.id, line.draft.external_id) == (None, None)


def test_only_fields_that_the_line_names_are_named() -> None:
    assert set(read(id="x", priority=7).given) == {"type", "title", "content", "priority"}


def test_null_empties_what_can_be_empty_and_says_nothing_of_the_rest() -> None:
    line = read(valid_from=None, valid_to=None, external_id=None, scope=None, tags=None, owner=None, id="x")
    assert set(line.given) == {"type", "title", "content", "valid_from", "valid_to"}
    assert line.draft.external_id == "x"


def test_the_source_is_that_of_the_line_else_of_the_request_else_import() -> None:
    assert read(source="wiki").draft.source == "wiki"
    assert parse_line({**PLAIN, "source": "faq"}, "wiki").draft.source == "faq"
    plain = read()
    assert plain.draft.source == "import"
    assert "source" not in plain.given


def test_what_an_item_does_not_have_is_ignored() -> None:
    line = read(version=9, digest="x", project="other", created_at="never", nonsense={"a": [1]})
    assert set(line.given) == {"type", "title", "content"}


def test_the_status_of_an_export_is_read() -> None:
    assert read(status="archived").status is KnowledgeStatus.ARCHIVED
    assert read().status is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a line", "object"),
        (None, "object"),
        ([], "object"),
        ({}, "title"),
        ({**PLAIN, "title": " "}, "title"),
        ({**PLAIN, "title": "x" * 10_000}, "title"),
        ({**PLAIN, "content": "x" * 5_000_000}, "content"),
        ({**PLAIN, "content": None}, "content"),
        ({**PLAIN, "tags": [f"t{number}" for number in range(1_000)]}, "tags"),
        ({**PLAIN, "tags": "auth"}, "tags"),
        ({**PLAIN, "scope": "../*"}, "scope"),
        ({**PLAIN, "type": "Gossip!"}, "type"),
        ({**PLAIN, "valid_from": "tomorrow"}, "valid_from"),
        ({**PLAIN, "priority": 11}, "priority"),
        ({**PLAIN, "id": {"a": 1}}, "id"),
        ({**PLAIN, "id": "x" * 301}, "external_id"),
        ({**PLAIN, "id": "a\0b"}, "id"),
        ({**PLAIN, "id": "a\0b", "external_id": "x"}, "id"),
        ({**PLAIN, "id": 1.5}, "id"),
        ({**PLAIN, "id": True}, "id"),
        ({**PLAIN, "status": "gone"}, "status"),
        ({**PLAIN, "status": ["active"]}, "status"),
    ],
)
def test_a_line_that_is_no_item_is_refused_in_a_few_words(value: JsonValue, said: str) -> None:
    with pytest.raises(UnfitError, match=said) as refused:
        parse_line(value, None)
    assert len(str(refused.value)) <= 500
