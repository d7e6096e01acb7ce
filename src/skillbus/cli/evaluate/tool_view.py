"""A measurement of search as people read it."""

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli.tables import rows
from skillbus.cli.text import plain_line
from skillbus.evaluation.measures import Estimate, Measure
from skillbus.evaluation.report import Abstention, Report, Slice

_HEADINGS: Final = {
    Measure.HIT_AT_1: "hit@1",
    Measure.RECALL_AT_5: "recall@5",
    Measure.RECALL_AT_10: "recall@10",
    Measure.NDCG_AT_10: "nDCG@10",
    Measure.MRR: "MRR",
    Measure.SET_RECALL: "whole set",
}


def table(report: Report) -> RenderableType:
    """Percentages, with 95 % intervals."""
    headings = ("requests", "", *_HEADINGS.values())
    lines = [line for part in report.slices for line in _lines(part)]
    found = [rows(headings, lines, numbers=tuple(_HEADINGS.values()))] if lines else []
    return Group(*found, rows(("at the default threshold", ""), list(_of_threshold(report.abstention))), _how(report))


def _lines(part: Slice) -> Iterator[tuple[str, ...]]:
    figures = [part.figures.get(measure) for measure in _HEADINGS]
    yield (
        f"{plain_line(part.name)} ({part.queries})",
        "skillbus",
        *(with_interval(it.search) if it else "" for it in figures),
    )
    yield ("", "BM25", *(f"{it.bm25.mean:.1%}".rstrip("%") if it else "" for it in figures))
    yield ("", "difference", *(with_interval(it.difference, sign="+") if it else "" for it in figures))


def with_interval(value: Estimate, sign: str = "") -> str:
    """In percent."""
    mean, low, high = (format(part * 100, f"{sign}.1f") for part in (value.mean, value.low, value.high))
    return f"{mean} [{low}, {high}]"


def _of_threshold(found: Abstention) -> Iterator[tuple[str, str]]:
    if found.answered_with_nothing is not None and found.bm25_answered_with_nothing is not None:
        what = f"abstention: {found.no_match} requests without a fitting tool, answered with nothing"
        yield what, with_interval(found.answered_with_nothing)
        yield "the same by BM25", with_interval(found.bm25_answered_with_nothing)
    if found.recall_at_5_lost is not None:
        yield "recall@5 that the threshold costs the others", with_interval(found.recall_at_5_lost)


def _how(report: Report) -> Text:
    model = plain_line(report.model or "no model")
    words = f"; {report.degraded} requests were answered by words alone" if report.degraded else ""
    return Text(
        f"{report.tools} tools, imported in {report.import_s:.1f} s; {report.queries} requests in {report.ask_s:.1f} s;"
        f" {model}{words}. In percent, with 95 % intervals.",
        "dim",
    )
