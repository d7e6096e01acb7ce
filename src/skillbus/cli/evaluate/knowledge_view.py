"""A measurement of the search of knowledge as people read it."""

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli.evaluate.tool_view import with_interval
from skillbus.cli.tables import rows
from skillbus.cli.text import plain_line
from skillbus.evaluation.knowledge_measures import KnowledgeMeasure
from skillbus.evaluation.knowledge_report import KnowledgeReport, KnowledgeSlice

_HEADINGS: Final = {
    KnowledgeMeasure.HIT_AT_1: "hit@1",
    KnowledgeMeasure.RECALL_AT_5: "recall@5",
    KnowledgeMeasure.NDCG_AT_10: "nDCG@10",
    KnowledgeMeasure.MRR_AT_10: "MRR@10",
    KnowledgeMeasure.RECALL_ACROSS: "recall@5 across",
}


def table(report: KnowledgeReport) -> RenderableType:
    """Percentages, with 95 % intervals."""
    lines = [line for part in report.slices for line in _lines(part)]
    headings = ("queries", "", *_HEADINGS.values())
    found = [rows(headings, lines, numbers=tuple(_HEADINGS.values()))] if lines else []
    return Group(
        *found, rows(("at the default threshold", ""), list(_of_threshold(report))), _scores(report), _how(report)
    )


def _lines(part: KnowledgeSlice) -> Iterator[tuple[str, ...]]:
    figures = [part.figures.get(measure) for measure in _HEADINGS]
    found = (with_interval(it.search) if it else "" for it in figures)
    yield (f"{plain_line(part.name)} ({part.queries})", "skillbus", *found)
    yield ("", "BM25", *(f"{it.bm25.mean:.1%}".rstrip("%") if it else "" for it in figures))
    yield ("", "difference", *(with_interval(it.difference, sign="+") if it else "" for it in figures))


def _of_threshold(report: KnowledgeReport) -> Iterator[tuple[str, str]]:
    if report.answered_with_nothing is not None:
        yield "queries that nothing answers, answered with nothing", with_interval(report.answered_with_nothing)
    if report.hit_at_1_lost is not None:
        yield "hit@1 that the threshold costs the others", with_interval(report.hit_at_1_lost)


def _scores(report: KnowledgeReport) -> RenderableType:
    lines = [
        (f"{it.low:g} to {it.high:g}", str(it.hits), f"{it.mean_score:.2f}", f"{it.answered:.2f}")
        for it in report.reliability
    ]
    return rows(("score", "hits", "mean score", "that answer"), lines, numbers=("hits", "mean score", "that answer"))


def _how(report: KnowledgeReport) -> Text:
    model = plain_line(report.model or "no model")
    words = f"; {report.degraded} queries were answered by words alone" if report.degraded else ""
    words += f"; {report.absent} of the answers are not among the items" if report.absent else ""
    return Text(
        f"{report.items} items, imported in {report.import_s:.1f} s; {report.queries} queries in {report.ask_s:.1f} s; "
        f"{model}{words}. In percent, with 95 % intervals. "
        f"On average scores are off by {report.calibration_error:.3f}.",
        "dim",
    )
