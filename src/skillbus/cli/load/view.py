"""Table of a load."""

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli.load.report import LatencyPercentiles, LoadPhase, LoadReport
from skillbus.cli.output import clean_line, format_number
from skillbus.cli.tables import build_table

_BUSY_CORES = 0.8
_NUMBERS = ("answered/s", "answered", "refused", "failed", "p50", "p90", "p99", "p99.9", "max")


def render_load_report(report: LoadReport) -> RenderableType:
    """Render a row for each phase, and below it what should be known about the figures."""
    rows = [_format_phase(phase) for phase in report.phases]
    parts: list[RenderableType] = [build_table(("load", *_NUMBERS), rows, numbers=_NUMBERS)]
    for phase in report.phases:
        causes = ", ".join(f"{number} x {clean_line(cause)}" for cause, number in sorted(phase.failed.items()))
        if causes:
            parts.append(Text(f"{_name_load(phase)} failed: {causes}"))
        if phase.refused_ms:
            parts.append(Text(f"{_name_load(phase)}: a refusal takes {_format_ms(phase.refused_ms.p99)} at p99", "dim"))
        if phase.generator_cpu > _BUSY_CORES:
            note = (
                f"{_name_load(phase)}: the generator used {phase.generator_cpu:.2f} of a core and slows the load down."
            )
            parts.append(Text(note))
    summary = (
        f"{format_number(report.queries, 'query')} for {report.kind}, {report.texts} texts. Latencies of "
        "answers in ms; those of an open loop count from when a request was due."
    )
    return Group(*parts, Text(summary, "dim"))


def _format_phase(phase: LoadPhase) -> tuple[str, ...]:
    counts = (phase.answered, phase.refused, sum(phase.failed.values()))
    return (_name_load(phase), f"{phase.answered_per_s:.1f}", *map(str, counts), *_format_latency(phase.answered_ms))


def _format_latency(latency: LatencyPercentiles | None) -> tuple[str, ...]:
    if latency is None:
        return ("-",) * 5
    return tuple(f"{value:.1f}" for value in (latency.p50, latency.p90, latency.p99, latency.p999, latency.max))


def _name_load(phase: LoadPhase) -> str:
    if phase.connections is not None:
        return f"closed, {format_number(phase.connections, 'connection')}"
    return f"open, {phase.rate:g}/s"


def _format_ms(value: float) -> str:
    return f"{value:.1f} ms"
