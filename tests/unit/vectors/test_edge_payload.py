from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from skillbus.vectors import models, point_id
from skillbus.vectors.edge.models import PACKED, find_top_fields, pack_payload, unpack_payload

texts = st.text(st.characters(codec="utf-8"), max_size=8)
values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)
payloads = st.dictionaries(st.sampled_from(["project", "tags", "room", PACKED]) | texts, values, max_size=6)


def point(payload: dict[str, JsonValue] | None) -> models.PointStruct:
    return models.PointStruct(id=point_id("a"), vector={}, payload=payload)


@settings(deadline=None)
@given(payloads)
def test_a_payload_comes_back_as_it_was_written(payload: dict[str, JsonValue]) -> None:
    written = pack_payload(point(payload), frozenset({"project", "tags"}))
    assert unpack_payload(written) == payload


def test_what_is_filtered_by_stands_by_itself_and_the_rest_is_one_text() -> None:
    written = pack_payload(
        point({"project": "p", "deep": {"kind": "a"}, "n": [1], "é": "ü"}), find_top_fields(["project", "deep.kind"])
    )
    assert written == {"project": "p", "deep": {"kind": "a"}, PACKED: '{"n": [1], "é": "ü"}'}


def test_no_payload_stays_none() -> None:
    assert pack_payload(point(None), frozenset()) is None
    assert unpack_payload(None) is None
