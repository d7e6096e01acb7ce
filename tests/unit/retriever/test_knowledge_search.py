"""From a query to items of knowledge, over an index that may say anything and a record that decides."""

from dataclasses import replace
from datetime import timedelta

import pytest

from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.scope import ScopeMatch
from skillbus.relevance.score import compute_least_evidence, compute_probability
from skillbus.retriever.domain.knowledge.search import KnowledgeLimits

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


async def test_a_changed_item_is_shown_as_it_is_now_and_ranked_by_its_older_version_until_it_is_indexed() -> None:
    """knowledge-base.md § 更新知识条目"""
    base = Base()
    base.put(item(1, "old"), 0.9)
    base.record.record.items[id_of(1)] = item(1, "new", version=2)
    found = await base.find()
    (hit,) = found.hits
    assert (hit.item.title, hit.item.version, hit.indexed, hit.cosine) == ("new", 2, False, 0.9)
    assert found.index_behind == 1


async def test_an_item_that_changes_during_a_search_is_shown_as_it_is_now() -> None:
    base = Base()
    base.put(item(1, "old"), 0.99)
    base.record.meanwhile = [item(1, "new", version=2)]
    (hit,) = (await base.find()).hits
    assert (hit.item.title, hit.indexed) == ("new", False)


async def test_an_item_that_is_archived_during_a_search_is_not_shown() -> None:
    base = Base()
    base.put(item(1), 0.99)
    base.record.meanwhile = [item(1, version=2, status=KnowledgeStatus.ARCHIVED)]
    assert await base.ids(threshold=0.0) == []


async def test_the_index_is_asked_again_when_other_projects_count_than_at_the_last_search() -> None:
    base = Base()
    base.put(item(1, project="team-a"))
    base.record.record.parents = {"team-a": "theirs"}
    base.record.recalled = ("team-a", "others")
    assert await base.ids(project="team-a") == [id_of(1)]
    assert [wanted.projects for wanted in base.index.wanted] == [("team-a", "others"), ("team-a", "theirs")]


async def test_the_record_is_asked_once_about_all_candidates() -> None:
    base = Base()
    for number in range(1, 21):
        base.put(item(number), 0.99 if number <= 5 else 0.1)
    assert len((await base.find(top_k=5)).hits) == 5
    assert base.record.asked == [tuple(id_of(number) for number in range(1, 21))]


async def test_an_item_that_the_index_lacks_is_not_found_and_the_reply_counts_it() -> None:
    base = Base()
    base.record.record.parents = {"team-a": "default"}
    base.put(item(1), 0.7)
    for number, project in ((2, "default"), (3, "default"), (4, "team-a"), (5, "team-b")):
        base.record.record.put(item(number, project=project), indexed=False)
    found = await base.find()
    assert [hit.item.id for hit in found.hits] == [id_of(1)]
    assert found.index_behind == 2
    assert (await base.find(project="team-a")).index_behind == 3
    assert (await base.find(project="team-a", inherit=False)).index_behind == 1


async def test_before_anything_was_indexed_nothing_is_found_and_the_reply_says_how_far_the_index_is_behind() -> None:
    base = Base(index=FakeIndex(index=None))
    base.record.record.put(item(1), indexed=False)
    found = await base.find(explain=True)
    assert (found.hits, found.index_behind) == ((), 1)
    assert base.queries.fingerprints == []


async def test_without_a_dense_vector_words_alone_find_and_the_answer_says_so() -> None:
    """knowledge-base.md § 降级到TF-IDF"""
    base = Base(queries=FakeQueries(dense=None))
    base.put(item(1), None, 3.0)
    base.put(item(2), None, None)
    found = await base.find()
    assert [hit.item.id for hit in found.hits] == [id_of(1)]
    assert (found.degraded, found.model, found.hits[0].cosine) == (True, None, None)


@pytest.mark.spec("knowledge-base.md § 指定范围检索")
async def test_a_much_more_relevant_general_item_comes_after_every_item_of_the_scope() -> None:
    """knowledge-base.md § 指定范围检索"""
    base = Base()
    for number, scope in enumerate(("", "/api", "/api/live/*", "/api/live/rooms")):
        base.put(item(number, scope=scope), 0.99 - number / 4, 20.0 - 5 * number)
    hits = (await base.find(scope="/api/live/rooms")).hits
    assert [hit.item.scope for hit in hits] == ["/api/live/rooms", "/api/live/*", "/api", ""]
    assert hits[0].score < hits[-1].score


async def test_an_item_of_the_scope_that_cannot_fit_takes_no_place() -> None:
    base = Base(limits=KnowledgeLimits(candidates=20, fits=0.3))
    base.put(item(1, scope="/api"), 0.001)
    base.put(item(2), 0.9, 20.0)
    assert await base.ids(scope="/api", top_k=1) == [id_of(2)]
    assert await base.ids(scope="/api", top_k=1, threshold=0.0) == [id_of(1)]


async def test_when_not_even_the_best_is_likely_to_fit_nothing_comes_back() -> None:
    base = Base()
    base.put(item(1), 0.05)
    found = await base.find(explain=True)
    assert found.hits == ()
    assert found.explanation is not None
    assert found.explanation.threshold == pytest.approx(compute_probability(compute_least_evidence(0.02, LIVE.items)))
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


async def test_terms_are_read_of_the_hits_that_share_words_with_the_query() -> None:
    base = Base()
    for number in range(1, 6):
        base.put(item(number), 0.9 - number / 20, bm25=None if number == 1 else 2.0)
        base.index.holding[id_of(number)] = frozenset({2})
    hits = (await base.find(top_k=2, threshold=0.0)).hits
    assert {reason.terms for hit in hits for reason in hit.reasons if reason.side == "lexical"} == {("直播",)}
    assert base.index.read == [(id_of(2), id_of(3))]


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
    found = await base.find(explain=True, scope="/api")
    told = found.explanation
    assert told is not None
    assert [(stage.name, stage.candidates) for stage in told.stages] == [
        ("embed", 0),
        ("filter", 3),
        ("candidates", 3),
        ("record", 2),
        ("rank", 2),
    ]
    assert (told.indexed, told.not_shown, told.projects) == (100, 1, ("default",))
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


async def test_the_parts_and_factors_of_a_score_add_up_to_it() -> None:
    base = Base()
    base.put(item(1, scope="/api", priority=9), 0.8, 3.0)
    (hit,) = (await base.find(scope="/api", explain=True)).hits
    assert hit.parts is not None
    assert hit.factors is not None
    sides = (hit.parts.dense or 0.0) + hit.parts.lexical + hit.parts.offset
    assert hit.parts.fused == pytest.approx(compute_probability(sides)) == pytest.approx(hit.relevance)
    assert hit.score == pytest.approx(compute_probability(sides + hit.factors.scope + hit.factors.priority))


async def test_an_explanation_names_the_items_that_were_left_out_by_cause() -> None:
    base = Base()
    base.put(item(1, scope="/api"), 0.9, 9.0)
    base.put(item(2, scope="/api"), 0.8, 8.0)
    base.put(item(3, scope="/api"), 0.01)
    base.put(item(4, scope="/web"), 0.9)
    base.put(item(5), 0.9)
    base.record.record.put(item(5, version=2, status="archived"))
    found = await base.find(scope="/api", explain=True, top_k=1, threshold=0.5)
    assert found.explanation is not None
    dropped = {group.cause.value: [hit.id for hit in group.first] for group in found.explanation.dropped}
    assert dropped["over_limit"] == [id_of(2)]
    assert dropped["below_threshold"] == [id_of(3)]
    assert sorted(dropped["refused"] + dropped.get("other_scope", [])) == [id_of(4), id_of(5)]
    assert sum(group.count for group in found.explanation.dropped) == 4


async def test_words_alone_are_compared_on_request_and_that_is_no_fault_of_the_model() -> None:
    base = Base()
    base.put(item(1), 0.8, 3.0)
    found = await base.find(side="lexical", explain=True)
    assert (found.degraded, found.model) == (False, "model")
