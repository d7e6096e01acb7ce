"""Whatever index and request: what is found is what the record has, and nothing near is lost."""

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus, KnowledgeType
from skillbus.contracts.scope import match_scope

from ...knowledge_record import NOW, item
from .knowledge_fakes import Base

PROJECTS = ("default", "team-a", "team-b")
SCOPES = ("", "/api", "/api/live/*", "/api/live/rooms", "module:live")
MOMENTS = st.none() | st.sampled_from([NOW + timedelta(days=days) for days in (-2, -1, 0, 1, 2)])


@st.composite
def bases(draw: st.DrawFn) -> Base:
    """A record, and an index that has what the record was told that it has; of all else it may have anything."""
    base = Base()
    base.record.record.parents = {"team-a": "default"}
    for number in range(draw(st.integers(0, 12))):
        one = draw(_items(number))
        indexed = draw(st.booleans())
        base.record.record.put(one, indexed=indexed)
        if draw(st.booleans()):
            version = one.version if indexed else draw(st.integers(1, 3))
            base.index.put(one.model_copy(update={"version": version}), draw(st.floats(-1, 1)))
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
        type=draw(st.sampled_from(list(KnowledgeType))),
        scope=draw(st.sampled_from(SCOPES)),
        tags=draw(st.lists(st.sampled_from("abc"), unique=True)),
        valid_from=draw(MOMENTS),
        valid_to=draw(MOMENTS),
    )


requests = st.fixed_dictionaries(
    {
        "project": st.sampled_from(PROJECTS),
        "inherit": st.booleans(),
        "types": st.lists(st.sampled_from(list(KnowledgeType)), max_size=2),
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
    known = {one for one in shown if one in base.index.points or record.indexed[one] < record.items[one].version}
    found = [hit.item.id for hit in hits]
    assert len(found) == len(set(found))
    assert set(found) == known
    assert all(hit.item == record.items[hit.item.id] for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        point = base.index.points.get(hit.item.id)
        assert hit.indexed is (point is not None and point.version == hit.item.version)


@st.composite
def moved(draw: st.DrawFn) -> Base:
    """A base in which everything that moves an item does, and some of what is nearest may not be shown."""
    base = Base()
    for number in range(draw(st.integers(0, 30))):
        one = item(
            number,
            status=draw(st.sampled_from([KnowledgeStatus.ACTIVE, KnowledgeStatus.ACTIVE, KnowledgeStatus.ARCHIVED])),
            type=draw(st.sampled_from(list(KnowledgeType))),
            priority=draw(st.integers(0, 10)),
            scope=draw(st.sampled_from(SCOPES)),
            tags=draw(st.sampled_from([(), ("header",)])),
            updated_at=NOW - timedelta(days=draw(st.sampled_from([0, 1_000]))),
        )
        base.record.record.put(one, indexed=draw(st.booleans()))
        if base.record.record.indexed[one.id] or draw(st.booleans()):
            base.index.put(one, draw(st.floats(0, 1)), draw(st.none() | st.floats(0.1, 20)))
        base.record.record.votes[one.id] = draw(st.sampled_from([(0.0, 0.0), (50.0, 0.0), (0.0, 50.0)]))
        if draw(st.integers(0, 9)) == 0:
            base.record.record.lately.add(one.id)
    return base


@settings(max_examples=300, deadline=None)
@given(base=moved(), top_k=st.integers(1, 4), scope=st.none() | st.sampled_from(SCOPES), feedback=st.booleans())
async def test_hits_are_the_same_whether_the_record_is_asked_about_all_candidates_or_those_within_reach(
    base: Base, top_k: int, scope: str | None, feedback: bool
) -> None:
    asked = {"threshold": 0.0, "top_k": top_k, "scope": scope, "feedback": feedback}
    few = (await base.find(**asked)).hits  # type: ignore[arg-type]  # of the request
    all_of_them = (await base.find(explain=True, **asked)).hits  # type: ignore[arg-type]  # of the request
    assert [(hit.item, hit.score, hit.reasons) for hit in few] == [
        (hit.item, hit.score, hit.reasons) for hit in all_of_them
    ]


async def test_the_record_is_not_asked_about_what_is_too_far_to_be_a_hit() -> None:
    base = Base()
    for number in range(1, 21):
        base.put(item(number), 0.99 if number <= 5 else 0.1)
    assert len((await base.find(top_k=5)).hits) == 5
    assert [len(ids) for ids in base.record.asked] == [5]


async def test_what_comes_within_reach_as_nearer_items_may_not_be_shown_is_asked_about_then() -> None:
    base = Base()
    for number in range(1, 21):
        base.put(item(number), 0.99 if number <= 5 else 0.1)
    base.record.meanwhile = [item(number, version=2, status=KnowledgeStatus.ARCHIVED) for number in range(1, 6)]
    hits = (await base.find(top_k=5, threshold=0.0)).hits
    assert len(hits) == 5
    assert [len(ids) for ids in base.record.asked] == [5, 15]
