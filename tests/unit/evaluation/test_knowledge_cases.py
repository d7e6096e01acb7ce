"""A folder with a knowledge base and queries, and what lists of items are worth."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from skillbus.calibration.errors import BadLineError, UnreadableFileError
from skillbus.evaluation.knowledge_cases import KnowledgeCases, load_knowledge_cases
from skillbus.evaluation.knowledge_report import KnowledgeAnswers, Scored, build_knowledge_report
from skillbus.evaluation.measures import KnowledgeMeasure, compute_knowledge_measures

from .files import lines_in

DOCS: list[object] = [
    {"id": "a", "type": "module_context", "title": "Gateway", "content": "An API gateway.", "tags": ["en"]},
    {"id": "b", "type": "module_context", "title": "网关", "content": "接口网关。", "valid_from": "2022-10-30"},
    {"id": "c", "type": "business_rule", "title": "Header", "content": "game-id", "scope": "/api/live/*"},
]
QUERIES: list[object] = [
    {"query": "what is a gateway", "relevant": [{"id": "a", "grade": 2}, {"id": "b", "grade": 1}], "lang": "en"},
    {"query": "哪个 header", "relevant": [{"id": "c"}], "scope": "/api/live/rooms", "kind": "scoped"},
    {"query": "nothing", "relevant": []},
]


def read(folder: Path, queries: Sequence[object] = QUERIES, docs: Sequence[object] = DOCS) -> KnowledgeCases:
    lines_in(folder / "docs.jsonl", docs)
    lines_in(folder / "queries.jsonl", queries)
    return load_knowledge_cases(folder)


def test_queries_of_all_files_are_read_with_their_scopes_and_kinds(tmp_path: Path) -> None:
    lines_in(tmp_path / "scope_queries.jsonl", [{"query": "header", "relevant": [{"id": "c"}], "scope": "/api/live/*"}])
    cases = read(tmp_path)
    assert [case.kind for case in cases.cases] == ["queries", "scoped", "queries", "scope_queries"]
    assert cases.cases[1].scope == "/api/live/rooms"
    assert cases.cases[0].across == frozenset({"b"})
    assert [doc.id for doc in cases.docs] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("docs", "queries", "words"),
    [
        ([*DOCS, DOCS[0]], QUERIES, r"line 4: id 'a' is also the id of line 1"),
        (DOCS, [{"query": "x", "relevant": [{"id": "z"}]}], r"no item with the id 'z'"),
        ([{"id": "a", "type": "a rule", "title": "T", "content": "C"}], QUERIES, r"line 1: type"),
        (DOCS, [{"query": "x", "scope": "../*"}], r"line 1: scope"),
    ],
)
def test_a_bad_line_is_told_by_its_number(
    tmp_path: Path, docs: list[object], queries: list[object], words: str
) -> None:
    with pytest.raises(BadLineError, match=words):
        read(tmp_path, queries, docs)


def test_answers_that_are_not_among_the_items_are_left_out_and_counted(tmp_path: Path) -> None:
    cases = read(tmp_path, [{"query": "x", "relevant": [{"id": "a"}, {"id": "elsewhere"}]}])
    assert dict(cases.cases[0].grades) == {"a": 1.0}
    assert cases.cases[0].absent == 1


def test_a_blank_query_is_passed_over(tmp_path: Path) -> None:
    cases = read(tmp_path, [{"query": " ", "relevant": [{"id": "a"}]}, *QUERIES])
    assert len(cases.cases) == len(QUERIES)


def test_a_folder_without_queries_is_refused(tmp_path: Path) -> None:
    lines_in(tmp_path / "docs.jsonl", DOCS)
    with pytest.raises(UnreadableFileError, match="queries"):
        load_knowledge_cases(tmp_path)


def test_grades_are_gains_and_what_crosses_languages_is_told_apart(tmp_path: Path) -> None:
    cases = read(tmp_path).cases[:1]
    best = compute_knowledge_measures([["a", "b"]], cases)
    turned = compute_knowledge_measures([["b", "a"]], cases)
    missed = compute_knowledge_measures([["c", "a"]], cases)
    assert best[KnowledgeMeasure.NDCG_AT_10] == [1.0]
    assert turned[KnowledgeMeasure.NDCG_AT_10][0] == pytest.approx((1 + 2 / 1.585) / (2 + 1 / 1.585), abs=1e-3)
    assert turned[KnowledgeMeasure.RECALL_ACROSS] == [1.0]
    assert missed[KnowledgeMeasure.HIT_AT_1] == [0.0]
    assert missed[KnowledgeMeasure.MRR_AT_10] == [0.5]
    assert missed[KnowledgeMeasure.RECALL_ACROSS] == [0.0]


def test_a_report_tells_how_far_scores_can_be_believed(tmp_path: Path) -> None:
    cases = read(tmp_path)
    answers = KnowledgeAnswers(
        nearest=[[Scored("a", 0.95), Scored("c", 0.15)], [Scored("c", 0.95)], [Scored("a", 0.15)]],
        default=[["a"], [], []],
        bm25=[["a"], ["c"], []],
        degraded=0,
        model="m",
        import_s=1.0,
        ask_s=1.0,
    )
    report = build_knowledge_report(cases, answers)
    assert [(it.hits, it.answered) for it in report.reliability] == [(2, 0.0), (2, 1.0)]
    assert report.calibration_error == pytest.approx(0.1)
    assert report.answered_with_nothing is not None
    assert report.answered_with_nothing.mean == 1.0
    assert report.hit_at_1_lost is not None
    assert report.hit_at_1_lost.mean == 0.5
    assert {part.name for part in report.slices} == {"all", "queries", "scoped", "en", "zh"}
