"""From a query to items of knowledge, over an index that may say anything and a record that decides."""

from dataclasses import replace
from datetime import timedelta

import pytest

from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.scope import ScopeMatch
from skillbus.relevance.score import compute_probability
from skillbus.retriever.domain.threshold import least_evidence

from ...knowledge_record import NOW, id_of, item
from .knowledge_fakes import LIVE, Base, FakeIndex, FakeQueries


async def test_hits_come_as_the_record_has_them_in_descending_score() -> None:
    """knowledge-base.md § 语义检索相关知识"""
    base = Base()
    for number, cosine in enumerate((0.5, 0.9, 0.7)):
        base.put(item(number, f"title {number}", external_id=f"faq-{number}"), cosine)
    hits = (await base.find()).hits
    assert [hit.item.external_id for hit in hits] == ["faq-1", "faq-2", "faq-0"]
    assert [hit.item for hit in hits] == [base.record.record.items[hit.item.id] for hit in hits]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert base.queries.fingerprints == [LIVE.fingerprint]


async def test_no_more_come_back_than_are_asked_for() -> None:
    """knowledge-base.md § 限制返回数量"""
    base = Base()
    for number in range(30):
        base.put(item(number), 0.5 + number / 100)
    assert len(await base.ids()) == 5
    assert await base.ids(top_k=2) == [id_of(29), id_of(28)]
    assert len((await base.find(at_most=20, top_k=2)).hits) == 20


@pytest.mark.parametrize(("top_k", "count"), [(5, 20), (10, 20), (50, 100)])
async def test_each_side_is_asked_for_more_than_there_are_hits(top_k: int, count: int) -> None:
    base = Base()
    await base.find(top_k=top_k)
    assert base.index.wanted[0].count == count


async def test_the_index_is_asked_for_items_of_the_project_and_of_those_above_it() -> None:
    base = Base()
    base.record.record.parents = {"team-a": "default"}
    await base.find(project="team-a", at=NOW.isoformat())
    (wanted,) = base.index.wanted
    assert wanted.projects == ("team-a", "default")
    assert wanted.at == NOW.timestamp()


@pytest.mark.parametrize(
    "gone",
    [
        {"status": KnowledgeStatus.ARCHIVED},
        {"status": KnowledgeStatus.PENDING},
        {"project": "other"},
        {"valid_to": NOW},
        {"valid_from": NOW + timedelta(seconds=1)},
        {"scope": "/other"},
        {"type": "test_experience"},
        {"tags": ("x",)},
    ],
    ids=str,
)
async def test_what_the_record_does_not_show_is_not_found_whatever_the_index_says(gone: dict[str, object]) -> None:
    """knowledge-base.md § 删除知识条目"""
    base = Base()
    asked = {"scope": "/api", "types": ["business_rule"], "tags": ["a", "b"], "explain": True}
    shown = item(1, scope="/api", tags=("a",))
    base.put(shown)
    base.put(shown.model_copy(update={"id": id_of(2), **gone}), 0.99)
    base.index.put(item(3), 0.99)  # the record never heard of it
    found = await base.find(**asked)  # type: ignore[arg-type]  # of the request
    assert [hit.item.id for hit in found.hits] == [id_of(1)]
    assert found.explanation is not None
    assert found.explanation.not_shown == 2


async def test_an_item_of_a_project_above_is_found_only_if_that_is_wanted() -> None:
    base = Base()
    base.record.record.parents = {"team-a": "default"}
    base.put(item(1))
    assert await base.ids(project="team-a") == [id_of(1)]
    assert await base.ids(project="team-a", inherit=False) == []


async def test_a_changed_item_is_scored_by_its_new_text_until_the_index_has_it() -> None:
    """knowledge-base.md § 更新知识条目"""
    base = Base()
    base.index.put(item(1), 0.99)
    base.record.record.put(item(1, version=2), indexed=False)
    base.items.cosines[f"{id_of(1)} 2"] = 0.6
    found = await base.find(explain=True)
    (hit,) = found.hits
    assert (hit.item.version, hit.indexed) == (2, False)
    assert hit.cosine == pytest.approx(0.6)
    assert found.explanation is not None
    assert (found.explanation.not_shown, found.explanation.unindexed) == (1, 1)


async def test_an_item_that_changes_during_a_search_is_scored_as_it_is_shown() -> None:
    base = Base()
    base.put(item(1), 0.99)
    base.record.meanwhile = [item(1, version=2)]
    base.items.cosines[f"{id_of(1)} 2"] = 0.6
    (hit,) = (await base.find()).hits
    assert hit.item.version == 2
    assert hit.cosine == pytest.approx(0.6)


async def test_an_item_that_is_archived_during_a_search_is_not_shown() -> None:
    base = Base()
    base.put(item(1), 0.99)
    base.record.record.put(item(2), indexed=False)
    base.record.meanwhile = [item(number, version=2, status=KnowledgeStatus.ARCHIVED) for number in (1, 2)]
    assert await base.ids(threshold=0.0) == []


async def test_an_item_that_comes_into_the_index_between_its_candidates_and_the_record_is_found() -> None:
    """knowledge-base.md § 手动创建知识条目"""
    base = Base()
    base.put(item(1), 0.7)
    base.index.meanwhile = [item(2)]
    base.record.record.put(item(2))
    base.record.record.lately = {id_of(2)}
    hits = (await base.find()).hits
    assert [(hit.item.id, hit.indexed) for hit in hits] == [(id_of(2), True), (id_of(1), True)]
    assert base.items.asked == []


async def test_an_item_whose_change_comes_into_the_index_between_is_scored_by_what_it_is_now() -> None:
    base = Base()
    base.put(item(1), 0.99)
    base.index.meanwhile = [item(1, version=2)]
    base.record.record.put(item(1, version=2))
    base.record.record.lately = {id_of(1)}
    (hit,) = (await base.find()).hits
    assert (hit.item.version, hit.indexed) == (2, True)
    assert hit.cosine == pytest.approx(0.8)


async def test_an_item_of_which_only_the_index_knows_that_it_has_it_is_scored_by_the_index() -> None:
    base = Base()
    base.index.put(item(1), 0.9)
    base.record.record.put(item(1), indexed=False)
    (hit,) = (await base.find()).hits
    assert hit.indexed
    assert hit.cosine == pytest.approx(0.9)
    assert base.items.asked == []


async def test_where_other_projects_count_than_was_thought_the_index_is_asked_again() -> None:
    base = Base()
    base.put(item(1, project="team-a"))
    base.record.record.parents = {"team-a": "theirs"}
    base.record.supposed = ("team-a", "others")
    assert await base.ids(project="team-a") == [id_of(1)]
    assert [wanted.projects for wanted in base.index.wanted] == [("team-a", "others"), ("team-a", "theirs")]


async def test_content_is_read_of_the_nearest_and_of_a_hit_that_was_not_among_them_afterwards() -> None:
    base = Base()
    for number in range(1, 6):
        base.put(item(number, priority=0), 0.8 - number / 100)
    base.put(item(6, priority=10, tags=("直播",)), 0.7)
    (hit,) = (await base.find(top_k=1)).hits
    assert (hit.item.id, hit.item.content) == (id_of(6), "content 6")
    assert base.record.asked == [tuple(id_of(number) for number in range(1, 7)), (id_of(6),)]


async def test_what_the_index_has_otherwise_is_not_scored_by_a_content_that_was_not_read() -> None:
    base = Base()
    for number in range(1, 4):
        base.put(item(number), 0.9 - number / 100)
    base.record.record.put(item(3, version=2), indexed=False)
    await base.find(top_k=1)
    assert base.items.contents == ["content 3"]


async def test_what_the_index_lacks_is_found_by_meaning_and_by_words() -> None:
    """knowledge-base.md § 手动创建知识条目"""
    base = Base()
    base.put(item(1), 0.7)
    base.record.record.put(item(2), item(3), indexed=False)
    base.items.cosines = {f"{id_of(2)} 1": 0.99, f"{id_of(3)} 1": 0.6}
    base.items.holding = {f"{id_of(3)} 1": (2,)}
    hits = (await base.find()).hits
    assert [(hit.item.id, hit.indexed) for hit in hits] == [(id_of(2), False), (id_of(3), False), (id_of(1), True)]
    assert [(reason.side, reason.terms) for reason in hits[1].reasons] == [("dense", ()), ("lexical", ("直播",))]
    assert base.items.asked == [((f"{id_of(3)} 1", f"{id_of(2)} 1"), LIVE.fingerprint)]


async def test_an_item_that_the_index_has_meanwhile_is_found_once() -> None:
    base = Base()
    base.put(item(1), 0.7)
    base.record.record.indexed[id_of(1)] = 0  # the record was not told yet
    found = await base.find(explain=True)
    (hit,) = found.hits
    assert (hit.indexed, hit.cosine) == (True, 0.7)
    assert base.record.asked == [(id_of(1),)]


async def test_before_anything_was_indexed_the_record_alone_is_searched() -> None:
    base = Base(index=FakeIndex(index=None))
    assert (await base.find(explain=True)).hits == ()
    base.record.record.put(item(1), indexed=False)
    found = await base.find(explain=True)
    assert [hit.item.id for hit in found.hits] == [id_of(1)]
    assert base.queries.fingerprints == [None, None]
    assert base.items.asked == [((f"{id_of(1)} 1",), "default")]
    assert found.explanation is not None
    assert (found.explanation.indexed, found.explanation.unindexed) == (0, 1)


async def test_without_a_dense_vector_words_alone_find_and_the_answer_says_so() -> None:
    """knowledge-base.md § 降级到TF-IDF"""
    base = Base(queries=FakeQueries(dense=None))
    base.put(item(1), None, 3.0)
    base.record.record.put(item(2), item(3), indexed=False)
    base.items.holding = {f"{id_of(2)} 1": (1, 2)}
    found = await base.find()
    assert [hit.item.id for hit in found.hits] == [id_of(2), id_of(1)]
    assert (found.degraded, found.model, found.hits[0].cosine) == (True, None, None)
    assert base.items.asked == [((f"{id_of(3)} 1", f"{id_of(2)} 1"), None)]


async def test_an_item_that_the_model_is_too_busy_for_is_found_by_its_words() -> None:
    base = Base()
    base.items.late = True
    base.items.holding = {f"{id_of(1)} 1": (1, 2)}
    base.record.record.put(item(1), item(2), indexed=False)
    hits = (await base.find(threshold=0.0)).hits
    assert [(hit.item.id, hit.cosine) for hit in hits] == [(id_of(1), None)]


async def test_when_not_even_the_best_is_likely_to_fit_nothing_comes_back() -> None:
    base = Base()
    base.put(item(1), 0.05)
    found = await base.find(explain=True)
    assert found.hits == ()
    assert found.explanation is not None
    assert found.explanation.threshold == pytest.approx(compute_probability(least_evidence(0.02, LIVE.items)))
    assert found.explanation.below_threshold == 1
    assert found.explanation.best_score is not None
    assert await base.ids(threshold=0.0) == [id_of(1)]


async def test_among_few_items_the_best_needs_less_to_be_likely_to_fit() -> None:
    few, many = Base(), Base(index=FakeIndex(index=replace(LIVE, items=5_000)))
    for base in (few, many):
        base.put(item(1), 0.5)
    assert await few.ids() == [id_of(1)]
    assert await many.ids() == []


@pytest.mark.parametrize("threshold", [0.0, 0.6, 0.8, 1.0])
async def test_a_threshold_keeps_the_hits_that_reach_it_and_no_others(threshold: float) -> None:
    base = Base()
    for number in range(30):
        base.put(item(number, priority=number % 11), 0.3 + number / 50)
    everything = (await base.find(top_k=50, threshold=0.0)).hits
    kept = (await base.find(top_k=50, threshold=threshold)).hits
    assert kept == tuple(hit for hit in everything if hit.score >= threshold)


async def test_a_hit_says_how_its_scope_lies_to_the_one_asked_for() -> None:
    """knowledge-base.md § 指定范围检索"""
    base = Base()
    base.put(item(1, scope=""), 0.8)
    base.put(item(2, scope="/api/live/*"), 0.7)
    asked = (await base.find(scope="/api/live/*")).hits
    assert [(hit.item.id, hit.scope_match) for hit in asked] == [
        (id_of(2), ScopeMatch.EXACT),
        (id_of(1), ScopeMatch.GENERAL),
    ]
    assert [hit.scope_match for hit in (await base.find()).hits] == [None, None]


async def test_votes_move_a_hit_unless_they_are_switched_off() -> None:
    """knowledge-base.md § 收集使用反馈"""
    base = Base()
    base.put(item(1), 0.71)
    base.put(item(2), 0.70)
    base.record.record.votes = {id_of(1): (0.0, 9.0), id_of(2): (9.0, 0.0)}
    assert await base.ids() == [id_of(2), id_of(1)]
    assert await base.ids(feedback=False) == [id_of(1), id_of(2)]


async def test_terms_are_read_of_likely_hits_while_the_record_is_asked_and_of_the_others_afterwards() -> None:
    base = Base()
    for number in range(1, 6):
        base.put(item(number), 0.9 - number / 20, bm25=2.0)
        base.index.holding[id_of(number)] = frozenset({1})
    base.put(item(6, scope="/api"), 0.5, bm25=2.0)
    base.index.holding[id_of(6)] = frozenset({2})
    (hit,) = (await base.find(top_k=1, scope="/api")).hits
    assert [reason.terms for reason in hit.reasons if reason.side == "lexical"] == [("直播",)]
    assert base.index.read == [(id_of(1), id_of(2)), (id_of(6),)]


async def test_a_lexical_reason_says_in_which_parts_of_the_item_the_terms_stand() -> None:
    base = Base()
    base.put(item(1, "直播 rules", content="Send the headers.", tags=("header",), scope="/直播"), 0.8, bm25=2.0)
    base.index.holding[id_of(1)] = frozenset({1, 2})
    (hit,) = (await base.find()).hits
    assert [(reason.side, reason.parts) for reason in hit.reasons] == [
        ("dense", ()),
        ("lexical", ("title", "content", "tags", "scope")),
    ]


async def test_no_more_of_a_content_comes_back_than_is_asked_for() -> None:
    base = Base()
    base.put(item(1, content="0123456789"))
    for characters, content, cut in ((10, "0123456789", False), (4, "0123", True), (0, "", True)):
        (hit,) = (await base.find(content_characters=characters)).hits
        assert (hit.item.content, hit.content_cut) == (content, cut)


async def test_an_explanation_tells_each_stage_and_what_moved_each_hit() -> None:
    """knowledge-base.md § 检索测试"""
    base = Base()
    base.put(item(1, priority=10, scope="/api"), 0.7, 2.0)
    base.put(item(2), 0.6)
    base.index.put(item(3))
    base.record.record.put(item(4), indexed=False)
    found = await base.find(explain=True, scope="/api")
    told = found.explanation
    assert told is not None
    assert [(stage.name, stage.candidates) for stage in told.stages] == [
        ("embed", 0),
        ("filter", 3),
        ("candidates", 3),
        ("record", 3),
        ("rank", 3),
    ]
    assert (told.indexed, told.not_shown, told.unindexed, told.projects) == (100, 1, 1, ("default",))
    assert told.terms == ("header", "直播")
    first = found.hits[0]
    assert first.factors is not None
    assert first.factors.model_dump() == {
        "scope": 3.0,
        "tag": 0.0,
        "priority": 0.3,
        "freshness": 0.0,
        "feedback": 0.0,
    }
    assert first.relevance is not None
    assert first.relevance < first.score == told.best_score


async def test_nothing_is_explained_unless_it_is_asked_for() -> None:
    base = Base()
    base.put(item(1))
    found = await base.find()
    assert (found.explanation, found.hits[0].factors, found.hits[0].relevance) == (None, None, None)
