import itertools
import random

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from skillbus.contracts.retriever import Reason, ToolType
from skillbus.retriever.domain.ranking import Candidate, Cut, rank, with_terms
from skillbus.retriever.domain.relevance import USE_MULTILINGUAL_V3

ALL = Cut(limit=100)
SIZE = 1_000

values = st.sampled_from([None, 0.0, 0.1, 0.3, 0.3000001, 0.7, 1.0])
candidate_lists = st.lists(st.tuples(values, values), max_size=12).map(
    lambda pairs: [tool(f"t{number}", cosine, bm25) for number, (cosine, bm25) in enumerate(pairs)]
)


def tool(
    id_: str, cosine: float | None = None, bm25: float | None = None, tool_type: str | None = "skill"
) -> Candidate:
    return Candidate(id=id_, name=id_, description="", tool_type=tool_type, cosine=cosine, bm25=bm25)


def ids(candidates: list[Candidate], cut: Cut = ALL) -> list[str]:
    return [hit.id for hit in rank(candidates, USE_MULTILINGUAL_V3, SIZE, cut)]


@given(candidate_lists, st.randoms())
def test_the_order_of_the_candidates_makes_no_difference(candidates: list[Candidate], random_: random.Random) -> None:
    shuffled = random_.sample(candidates, len(candidates))
    assert rank(candidates, USE_MULTILINGUAL_V3, SIZE, ALL) == rank(shuffled, USE_MULTILINGUAL_V3, SIZE, ALL)


@given(candidate_lists)
def test_hits_come_in_descending_order_of_their_score(candidates: list[Candidate]) -> None:
    """skill-vector-retrieval.md § 检索结果限制"""
    scores = [hit.score for hit in rank(candidates, USE_MULTILINGUAL_V3, SIZE, ALL)]
    assert scores == sorted(scores, reverse=True)


@given(candidate_lists, st.floats(0.0, 1.0))
def test_a_threshold_keeps_the_hits_that_reach_it_and_no_others(candidates: list[Candidate], threshold: float) -> None:
    """skill-vector-retrieval.md § 相似度阈值过滤"""
    everything = rank(candidates, USE_MULTILINGUAL_V3, SIZE, ALL)
    kept = rank(candidates, USE_MULTILINGUAL_V3, SIZE, Cut(limit=100, threshold=threshold))
    assert kept == tuple(hit for hit in everything if hit.score >= threshold)


@given(candidate_lists, st.integers(1, 12))
def test_a_limit_keeps_the_first_hits(candidates: list[Candidate], limit: int) -> None:
    """skill-vector-retrieval.md § 检索结果限制"""
    assert ids(candidates, Cut(limit=limit)) == ids(candidates)[:limit]


def test_of_equal_scores_the_higher_cosine_comes_first_then_the_lower_id() -> None:
    candidates = [tool("b", 0.0), tool("c", -0.2), tool("a", 0.0)]
    assert ids(candidates) == ["a", "b", "c"]


def test_evidence_that_rounds_to_the_same_score_still_orders() -> None:
    candidates = [tool("near", 0.6, 400.0), tool("far", 0.3, 500.0)]
    hits = rank(candidates, USE_MULTILINGUAL_V3, SIZE, ALL)
    assert [hit.id for hit in hits] == ["far", "near"]
    assert hits[0].score == hits[1].score == 1.0


def test_a_tool_that_both_sides_found_beats_one_that_a_side_found() -> None:
    candidates = [tool("dense", 0.5), tool("both", 0.5, 6.0), tool("lexical", 0.2, 6.0)]
    assert ids(candidates)[0] == "both"


def test_without_a_model_the_shared_words_order() -> None:
    """skill-vector-retrieval.md § 嵌入模型加载失败"""
    hits = rank([tool("some", None, 3.0), tool("more", None, 9.0)], USE_MULTILINGUAL_V3, SIZE, ALL)
    assert [hit.id for hit in hits] == ["more", "some"]
    assert all(hit.cosine is None and 0 < hit.score < 1 for hit in hits)
    assert [reason.side for reason in hits[0].reasons] == ["lexical"]


def test_the_reasons_give_place_and_value_on_each_side() -> None:
    hits = rank([tool("x", 0.4, 5.0), tool("y", 0.9), tool("z", 0.1, 2.0)], USE_MULTILINGUAL_V3, SIZE, ALL)
    reasons = {hit.id: hit.reasons for hit in hits}
    assert reasons["x"] == (Reason(side="dense", rank=2, score=0.4), Reason(side="lexical", rank=1, score=5.0))
    assert reasons["y"] == (Reason(side="dense", rank=1, score=0.9),)


def test_the_terms_that_a_hit_shares_with_the_query_stand_with_its_lexical_reason() -> None:
    (hit,) = rank([tool("x", 0.4, 5.0)], USE_MULTILINGUAL_V3, SIZE, ALL)
    assert [reason.terms for reason in with_terms(hit, ("提交",)).reasons] == [(), ("提交",)]


def test_nothing_found_gives_nothing() -> None:
    """tool-type.md § 边界测试, 空结果"""
    assert rank([], USE_MULTILINGUAL_V3, 0, ALL) == ()


def test_every_kind_of_tool_is_named_at_the_top_and_in_the_metadata() -> None:
    """tool-type.md § 功能测试"""
    kinds = [kind.value for kind in ToolType]
    hits = rank([tool(kind, 0.5, None, kind) for kind in kinds], USE_MULTILINGUAL_V3, SIZE, ALL)
    assert {hit.id: hit.tool_type.value for hit in hits} == dict(zip(kinds, kinds, strict=True))
    assert all(hit.metadata["type"] == hit.id for hit in hits)


def test_the_rest_of_the_metadata_is_kept() -> None:
    candidate = Candidate(
        id="x", name="x", description="", metadata={"path": "data/skills/x", "type": "old"}, cosine=0.5
    )
    (hit,) = rank([candidate], USE_MULTILINGUAL_V3, SIZE, ALL)
    assert hit.metadata == {"path": "data/skills/x", "type": "skill"}


def test_a_tool_without_a_kind_is_a_skill_and_the_log_says_so() -> None:
    """tool-type.md § 异常处理, undefined"""
    with capture_logs() as logs:
        (hit,) = rank([tool("x", 0.5, None, None)], USE_MULTILINGUAL_V3, SIZE, ALL)
    assert hit.tool_type is ToolType.SKILL
    assert [(log["log_level"], log["event"], log["tool_id"]) for log in logs] == [("debug", "tool_type_absent", "x")]


def test_a_tool_of_an_unknown_kind_is_left_out_with_a_warning_and_the_next_takes_its_place() -> None:
    """tool-type.md § 异常处理, 非法值"""
    candidates = [tool("odd", 0.9, None, "plugin"), tool("good", 0.5)]
    with capture_logs() as logs:
        assert ids(candidates, Cut(limit=1)) == ["good"]
    assert [(log["log_level"], log["event"], log["tool_type"]) for log in logs] == [
        ("warning", "tool_type_unknown", "plugin")
    ]


@given(candidate_lists)
def test_the_order_is_total(candidates: list[Candidate]) -> None:
    """Any two tools stand to each other in a list as they stand alone."""
    order = ids(candidates)
    by_id = {candidate.id: candidate for candidate in candidates}
    for first, second in itertools.combinations(order, 2):
        assert ids([by_id[second], by_id[first]]) == [first, second]
