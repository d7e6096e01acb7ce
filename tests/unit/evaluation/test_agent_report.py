"""What `skillbus eval agent` says of the tools that turns were shown and the calls that they made."""

from pathlib import Path

from skillbus.evaluation.agent_report import AgentAnswers, AgentMeasure, build_agent_report

from .files import cases_of

REQUESTS = [
    {"query": "会下雨吗", "relevant": ["rain"], "lang": "zh"},
    {"query": "rain and song", "relevant": ["rain", "song"], "lang": "en"},
    {"query": "fly me", "relevant": [], "lang": "en"},
]


def test_a_right_tool_shown_is_a_hit_and_recall_and_calls_count_each_want(tmp_path: Path) -> None:
    answers = AgentAnswers(
        shown=[["rain"], ["commit", "song"], ["song"]],
        called=[[], ["song"], []],
        bm25=[[], ["rain", "song"], []],
        import_s=1.0,
        ask_s=2.0,
    )
    report = build_agent_report(cases_of(tmp_path, REQUESTS), answers)
    figures = {part.name: part.figures for part in report.slices}
    assert {part[AgentMeasure.HIT_AT_10].search.mean for part in figures.values()} == {1.0}
    assert report.slices[0].queries == 2
    assert figures["all"][AgentMeasure.RECALL_AT_10].search.mean == 0.75
    assert figures["all"][AgentMeasure.CALLED].search.mean == 0.25
    assert figures["en"][AgentMeasure.RECALL_AT_10].bm25.mean == 1.0
    assert report.document()["queries"] == 3
