"""Tables of measurements of search, in percent with 95 % intervals."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from skillbus.cli.output import clean_line, format_number
from skillbus.cli.tables import build_table
from skillbus.evaluation.agent_report import AgentMeasure, AgentTurnsReport
from skillbus.evaluation.knowledge_report import KnowledgeReport
from skillbus.evaluation.log_templates import LogReport
from skillbus.evaluation.measures import Estimate, KnowledgeMeasure, Measure
from skillbus.evaluation.report import Figure, MeasureT, Report, Slice

_COMPARED: Final = ("skillbus", "BM25", "difference")
_TOOL_HEADINGS: Final = {
    Measure.HIT_AT_1: "hit@1",
    Measure.RECALL_AT_5: "recall@5",
    Measure.RECALL_AT_10: "recall@10",
    Measure.NDCG_AT_10: "nDCG@10",
    Measure.MRR: "MRR",
    Measure.SET_RECALL: "whole set",
}
_AGENT_HEADINGS: Final = {
    AgentMeasure.HIT_AT_10: "hit@10 shown",
    AgentMeasure.RECALL_AT_10: "recall@10 shown",
    AgentMeasure.CALLED: "called",
}
_KNOWLEDGE_HEADINGS: Final = {
    KnowledgeMeasure.HIT_AT_1: "hit@1",
    KnowledgeMeasure.RECALL_AT_5: "recall@5",
    KnowledgeMeasure.NDCG_AT_10: "nDCG@10",
    KnowledgeMeasure.MRR_AT_10: "MRR@10",
    KnowledgeMeasure.RECALL_ACROSS: "recall@5 across",
}


def render_tool_report(report: Report) -> RenderableType:
    """Render a measurement of the search of tools."""
    slices = list(_merge_slices(report.slices))
    effect, thresholds = report.abstention, []
    if effect.answered_with_nothing is not None and effect.bm25_answered_with_nothing is not None:
        what = f"{format_number(effect.no_match, 'query')} without a fitting tool that got no hit"
        thresholds.append((what, format_interval(effect.answered_with_nothing)))
        thresholds.append(("the same by BM25", format_interval(effect.bm25_answered_with_nothing)))
    if effect.recall_at_5_lost is not None:
        thresholds.append(("recall@5 lost by the other queries", format_interval(effect.recall_at_5_lost)))
    degraded = f"; {format_number(report.degraded, 'query')} answered by words alone" if report.degraded else ""
    summary = (
        f"{format_number(report.tools, 'tool')}, imported in {report.import_s:.1f} s; "
        f"{format_number(report.queries, 'query')} in {report.ask_s:.1f} s; "
        f"{clean_line(report.model or 'no model')}{degraded}. In percent, with 95 % intervals."
    )
    return Group(
        *_render_slices(slices, _TOOL_HEADINGS),
        build_table(("at the default threshold", ""), thresholds),
        Text(summary, "dim"),
    )


def render_agent_report(report: AgentTurnsReport) -> RenderableType:
    """Render a measurement of the tools that chats are shown."""
    slices = list(_merge_slices(report.slices))
    summary = (
        f"{format_number(report.tools, 'tool')}, imported in {report.import_s:.1f} s; "
        f"{format_number(report.queries, 'turn')} in {report.ask_s:.1f} s. "
        "Tools shown before the first step; `called` is what a model meets that calls the right ones of them. In "
        "percent, with 95 % intervals."
    )
    return Group(*_render_slices(slices, _AGENT_HEADINGS), Text(summary, "dim"))


def render_knowledge_report(report: KnowledgeReport) -> RenderableType:
    """Render a measurement of the search of knowledge."""
    slices = list(_merge_slices(report.slices))
    thresholds = []
    if report.answered_with_nothing is not None:
        thresholds.append(("queries without an answer that got no hit", format_interval(report.answered_with_nothing)))
    if report.hit_at_1_lost is not None:
        thresholds.append(("hit@1 lost by the other queries", format_interval(report.hit_at_1_lost)))
    scores = [
        (f"{it.low:g} to {it.high:g}", str(it.hits), f"{it.mean_score:.2f}", f"{it.answered:.2f}")
        for it in report.reliability
    ]
    headings = ("score", "hits", "mean score", "share of answers")
    notes = f"; {format_number(report.degraded, 'query')} answered by words alone" if report.degraded else ""
    notes += f"; {report.absent} of the answers are not among the items" if report.absent else ""
    summary = (
        f"{format_number(report.items, 'item')}, imported in {report.import_s:.1f} s; "
        f"{format_number(report.queries, 'query')} in {report.ask_s:.1f} s; "
        f"{clean_line(report.model or 'no model')}{notes}. In percent, with 95 % intervals. "
        f"The mean error of a score is {report.calibration_error:.3f}."
    )
    return Group(
        *_render_slices(slices, _KNOWLEDGE_HEADINGS),
        build_table(("at the default threshold", ""), thresholds),
        build_table(headings, scores, numbers=headings[1:]),
        Text(summary, "dim"),
    )


def _merge_slices(slices: Sequence[Slice[MeasureT]]) -> Iterator[tuple[str, dict[MeasureT, Figure]]]:
    """Return the name and figures of each slice. Slices with the same queries and figures are one, with all names."""
    merged: list[tuple[list[str], Slice[MeasureT]]] = []
    for one in slices:
        names = next((names for names, it in merged if (it.queries, it.figures) == (one.queries, one.figures)), None)
        if names is None:
            merged.append(([clean_line(one.name)], one))
        else:
            names.append(clean_line(one.name))
    return ((f"{' = '.join(names)} ({it.queries})", it.figures) for names, it in merged)


def render_log_report(report: LogReport) -> RenderableType:
    """Render the accuracy of mined log templates."""
    rows = [(clean_line(name), f"{it.ga * 100:.1f}", f"{it.fga * 100:.1f}") for name, it in report.sets.items()]
    rows.append(("mean", f"{report.macro.ga * 100:.1f}", f"{report.macro.fga * 100:.1f}"))
    headings = ("group accuracy", "its F1")
    return Group(
        build_table(("log", *headings), rows, numbers=headings), Text("In percent of lines; of templates.", "dim")
    )


def _render_slices(
    slices: list[tuple[str, dict[MeasureT, Figure]]], measures: Mapping[MeasureT, str]
) -> Iterator[Table]:
    """Yield a table with a row for each measure of each slice: skillbus, BM25, and the difference."""
    rows: list[tuple[str, ...]] = []
    for name, figures in slices:
        named = [(heading, figures[measure]) for measure, heading in measures.items() if measure in figures]
        for number, (heading, it) in enumerate(named):
            bm25, difference = f"{it.bm25.mean * 100:.1f}", format_interval(it.difference, sign="+")
            rows.append((name if number == 0 else "", heading, format_interval(it.search), bm25, difference))
    if rows:
        yield build_table(("queries", "measure", *_COMPARED), rows, numbers=_COMPARED)


def format_interval(value: Estimate, sign: str = "") -> str:
    """Return a mean and its interval in percent."""
    mean, low, high = (format(part * 100, f"{sign}.1f") for part in (value.mean, value.low, value.high))
    return f"{mean} [{low}, {high}]"
