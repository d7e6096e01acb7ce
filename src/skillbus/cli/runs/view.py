"""Tables of runs."""

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.output import clean_line, format_number, format_size
from skillbus.contracts.sandbox.run_history import RunRecord

_WIDE_CELLS: Final = 140
"""Width from which the table of runs has all its columns."""
_UNKNOWN: Final = "-"


def render_runs(found: Sequence[RunRecord], width: int) -> RenderableType:
    """Render runs, one a line. On a narrow terminal only the most important columns are shown."""
    if not found:
        return Text("No run of the last day is known.")
    headings = ["id", "skill", "state", "began", "took"]
    rows = [
        [run.run_id, run.skill, run.state.value, f"{run.began_at.astimezone():%m-%d %H:%M}", _format_usage(run)["time"]]
        for run in found
    ]
    if width >= _WIDE_CELLS:
        headings += ["action", "cpu", "memory", "output", "files"]
        for row, run in zip(rows, found, strict=True):
            usage = _format_usage(run)
            row += [run.action, *(usage[name] for name in ("cpu", "memory", "output", "files"))]
    numbers = ("took", "cpu", "memory", "output", "files")
    table = tables.build_table(headings, rows, numbers=numbers, whole=("id", "state", "began"))
    return Group(table, Text(format_number(len(found), "run"), "dim"))


def render_run(record: RunRecord) -> RenderableType:
    """Render one run: the usage and limit of each resource."""
    limits, usage = record.limits, _format_usage(record)
    code = "" if record.exit_code is None else f", exit code {record.exit_code}"
    cause = f": {record.detail}" if record.detail else ""
    facts = [
        ("run", record.run_id),
        ("skill", f"{record.skill}, {record.action}"),
        ("state", f"{record.state.value}{code}{cause}"),
        ("began", f"{record.began_at.astimezone():%Y-%m-%d %H:%M:%S}"),
        ("isolation", record.isolation or _UNKNOWN),
        ("package", record.content_digest),
    ]
    rows = [
        ("time", usage["time"], f"{limits.wall_s:g} s"),
        ("waited", usage["waited"], ""),
        ("CPU", usage["cpu"], f"{limits.cpu_s} s for each process"),
        ("memory", usage["memory"], format_size(limits.memory_bytes)),
        ("processes", _UNKNOWN, str(limits.processes)),
        ("output", usage["output"], format_size(limits.output_bytes)),
        ("files", usage["files"], str(limits.artifacts)),
        ("size of files", usage["size"], format_size(limits.artifacts_bytes)),
        ("size of /work", _UNKNOWN, format_size(limits.work_bytes)),
    ]
    parts: list[RenderableType] = [
        tables.build_table(("name", "value"), [(name, clean_line(value)) for name, value in facts]),
        Text(),
        tables.build_table(("resource", "used", "limit"), rows),
    ]
    if record.artifacts:
        files = [(artifact.name, format_size(artifact.size_bytes)) for artifact in record.artifacts]
        parts += [Text(), tables.build_table(("file", "size"), files, numbers=("size",))]
    return Group(*parts)


def _format_usage(record: RunRecord) -> dict[str, str]:
    """Return the resources that a run used, by name; nothing is known of a run that has not ended."""
    used = record.used
    if used is None:
        return dict.fromkeys(("time", "waited", "cpu", "memory", "output", "files", "size"), _UNKNOWN)
    return {
        "time": _format_ms(used.wall_ms),
        "waited": _format_ms(used.waited_ms),
        "cpu": _format_ms(used.cpu_ms),
        "memory": _UNKNOWN if used.peak_bytes is None else format_size(used.peak_bytes),
        "output": format_size(used.output_bytes),
        "files": str(used.artifacts),
        "size": format_size(used.artifacts_bytes),
    }


def _format_ms(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"
