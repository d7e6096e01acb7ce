"""Tables of a measurement of what is installed, in percent with 95 % intervals."""

from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli.evaluate.view import format_interval
from skillbus.cli.output import clean_line, format_number
from skillbus.cli.tables import build_table
from skillbus.evaluation.installed import InstalledReport

_HEADINGS: Final = {
    "hit_at_1": "hit@1",
    "recall_at_5": "recall@5",
    "recall_at_10": "recall@10",
    "ndcg_at_10": "nDCG@10",
    "mrr": "MRR",
    "mrr_at_10": "MRR@10",
    "set_recall": "whole set",
}


def render_installed_report(report: InstalledReport, *, with_failures: bool) -> RenderableType:
    """Render the figures, and the queries that were not answered as they should be."""
    figures = [
        (heading, format_interval(report.figures[name]))
        for name, heading in _HEADINGS.items()
        if name in report.figures
    ]
    parts: list[RenderableType] = []
    if figures:
        parts.append(build_table(("measure", report.kind.value), figures, numbers=(report.kind.value,)))
    thresholds = []
    if report.answered_with_nothing is not None:
        thresholds.append(
            ("queries without a right hit that got no hit", format_interval(report.answered_with_nothing))
        )
    if report.hit_at_1_lost is not None:
        thresholds.append(("hit@1 lost by the other queries", format_interval(report.hit_at_1_lost)))
    if thresholds:
        parts.append(build_table(("at the default threshold", ""), thresholds))
    degraded = f"; {format_number(report.degraded, 'query')} answered by words alone" if report.degraded else ""
    summary = (
        f"{format_number(report.queries, 'query')}; {clean_line(report.model or 'no model')}{degraded}. "
        "In percent, with 95 % intervals."
    )
    parts.append(Text(summary, "dim"))
    if with_failures and report.misses:
        rows = [(clean_line(it.query), _join(it.right), str(it.rank or "-"), _join(it.found)) for it in report.misses]
        parts += [Text(), build_table(("query", "right", "place", "first three"), rows, numbers=("place",))]
    elif report.misses:
        hint = f"{format_number(len(report.misses), 'query')} not answered as expected: --failures shows them."
        parts.append(Text(hint, "dim"))
    return Group(*parts)


def _join(names: tuple[str, ...]) -> str:
    return clean_line(", ".join(names)) or "-"
