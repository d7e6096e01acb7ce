"""Tables of measurements of spoken commands and of the search of commands."""

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli.output import clean_line, format_number
from skillbus.cli.tables import build_table
from skillbus.evaluation.queryir.report import CommandReport, QueryIrReport

_SUMMARY = "In percent of sentences. `devices`: chosen exactly, of the sentences that say which are right."


def render_queryir_report(report: QueryIrReport, *, with_failures: bool) -> RenderableType:
    """Render the figures of each set, and the sentences that were not understood as expected."""
    headings = ("sentences", "all fields right", "devices")
    rows = [
        (name, str(it.n), f"{it.exact * 100:.1f}", "-" if it.devices is None else f"{it.devices * 100:.1f}")
        for name, it in report.sets.items()
    ]
    parts: list[RenderableType] = [build_table(("set", *headings), rows, numbers=headings), Text(_SUMMARY, "dim")]
    if with_failures and report.failures:
        wrong = [
            (failure.utterance if number == 0 else "", it.field, it.expected, it.found)
            for failure in report.failures
            for number, it in enumerate(failure.wrong)
        ]
        parts += [Text(), build_table(("sentence", "field", "expected", "found"), wrong, whole=("field",))]
    elif report.failures:
        hint = f"{format_number(len(report.failures), 'sentence')} not understood as expected: --failures shows them."
        parts.append(Text(hint, "dim"))
    return Group(*parts)


def render_command_report(report: CommandReport, *, with_failures: bool) -> RenderableType:
    """Render the figures, and the queries without a right command at the first place."""
    figures = [("hit@1", f"{report.hit_at_1 * 100:.1f}"), ("hit@10", f"{report.hit_at_10 * 100:.1f}")]
    parts: list[RenderableType] = [
        build_table(("measure", "percent"), figures, numbers=("percent",)),
        Text(f"{format_number(report.n, 'query')} with a command of a right capability.", "dim"),
    ]
    if with_failures and report.misses:
        rows = [
            (it.query, ", ".join(it.expected), str(it.rank or "-"), clean_line(", ".join(it.found)))
            for it in report.misses
        ]
        parts += [
            Text(),
            build_table(("query", "right capabilities", "place", "first three"), rows, numbers=("place",)),
        ]
    return Group(*parts)
