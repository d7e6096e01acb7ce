"""For any index and request: every hit is an item that the record shows, and no candidate that it shows is lost."""

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from skillbus.contracts.learner.knowledge import KNOWN_TYPES, KnowledgeItem, KnowledgeStatus
from skillbus.contracts.scope import ScopeMatch, match_scope

from ...knowledge_record import NOW, item
from .knowledge_fakes import Base

PROJECTS = ("default", "team-a", "team-b")
SCOPES = ("", "/api", "/api/live/*", "/api/live/rooms", "module:live")
MOMENTS = st.none() | st.sampled_from([NOW + timedelta(days=days) for days in (-2, -1, 0, 1, 2)])


@st.composite
def bases(draw: st.DrawFn) -> Base:
    """A record, and an index that has any of its items, and some that the record never had."""
    base = Base()
    base.record.record.parents = {"team-a": "default"}
    for number in range(draw(st.integers(0, 12))):
        one = draw(_items(number))
        indexed = draw(st.booleans())
        base.record.record.put(one, indexed=indexed)
        if draw(st.booleans()):
            base.index.put(one, draw(st.floats(-1, 1)))
    for number in range(100, 100 + draw(st.integers(0, 3))):
        base.index.put(item(number), 0.99)
    return base


@st.composite
def _items(draw: st.DrawFn, number: int) -> KnowledgeItem:
    return item(
        number,
        project=draw(st.sampled_from(PROJECTS)),
        status=draw(st.sampled_from(list(KnowledgeStatus))),
        version=draw(st.integers(1, 3)),
        type=draw(st.sampled_from(list(KNOWN_TYPES))),
        scope=draw(st.sampled_from(SCOPES)),
        tags=draw(st.lists(st.sampled_from("abc"), unique=True)),
        valid_from=draw(MOMENTS),
        valid_to=draw(MOMENTS),
    )


requests = st.fixed_dictionaries(
    {
        "project": st.sampled_from(PROJECTS),
        "inherit": st.booleans(),
        "types": st.lists(st.sampled_from(list(KNOWN_TYPES)), max_size=2),
        "tags": st.lists(st.sampled_from("abc"), max_size=2),
        "all_tags": st.lists(st.sampled_from("abc"), max_size=2),
        "scope": st.none() | st.sampled_from(SCOPES),
        "at": MOMENTS,
    }
)


def _may_be_shown(one: KnowledgeItem, asked: dict[str, object], at: datetime) -> bool:
    own = one.project == asked["project"]
    inherited = asked["inherit"] and asked["project"] == "team-a" and one.project == "default"
    return (
        one.status is KnowledgeStatus.ACTIVE
        and bool(own or inherited)
        and (one.valid_from is None or one.valid_from <= at)
        and (one.valid_to is None or at < one.valid_to)
        and (not asked["types"] or one.type in list(asked["types"]))  # type: ignore[call-overload]
        and (not asked["tags"] or bool(set(one.tags) & set(asked["tags"])))  # type: ignore[call-overload]
        and set(asked["all_tags"]) <= set(one.tags)  # type: ignore[call-overload]
        and (asked["scope"] is None or match_scope(one.scope, str(asked["scope"])) is not None)
    )


@settings(max_examples=300, deadline=None)
@given(base=bases(), asked=requests)
async def test_archived_foreign_and_expired_items_are_never_found_and_what_may_be_shown_is(
    base: Base, asked: dict[str, object]
) -> None:
    hits = (await base.find(threshold=0.0, top_k=50, **asked)).hits  # type: ignore[arg-type]  # of the request
    record = base.record.record
    at = asked["at"] if isinstance(asked["at"], datetime) else NOW
    shown = {one.id for one in record.items.values() if _may_be_shown(one, asked, at)}
    found = [hit.item.id for hit in hits]
    assert len(found) == len(set(found))
    assert set(found) == shown & set(base.index.points)
    assert all(hit.item == record.items[hit.item.id] for hit in hits)
    order = [(list(ScopeMatch).index(hit.scope_match) if hit.scope_match else 0, -hit.score) for hit in hits]
    assert order == sorted(order)
    for hit in hits:
        assert hit.indexed is (record.indexed[hit.item.id] == hit.item.version)
