"""How runs look to people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.text import plain_line, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from skillbus.contracts.sandbox.run_history import RunRecord

_HEADINGS: Final = ("id", "skill", "action", "state", "began", "took", "cpu", "memory", "output", "files")
_NUMBERS: Final = ("took", "cpu", "memory", "output", "files")
_UNKNOWN: Final = "-"


def runs(found: Sequence[RunRecord]) -> RenderableType:
    """Runs, one a line."""
    if not found:
        return Text("No run is remembered.")
    return Group(tables.rows(_HEADINGS, map(_line, found), numbers=_NUMBERS), Text(f"{len(found)} runs", "dim"))


def run(record: RunRecord) -> RenderableType:
    """One run: each limit beside what was used of it."""
    limits = record.limits
    facts = [
        ("run", record.run_id),
        ("skill", f"{record.skill}, {record.action}"),
        ("state", _state(record)),
        ("began", _time(record)),
        ("isolation", record.isolation or _UNKNOWN),
        ("package", record.content_digest),
    ]
    used = _used(record)
    rows = [
        ("time", used["time"], f"{limits.wall_s:g} s"),
        ("waited", used["waited"], ""),
        ("CPU", used["cpu"], f"{limits.cpu_s} s each process"),
        ("memory", used["memory"], size(limits.memory_bytes)),
        ("processes", _UNKNOWN, str(limits.processes)),
        ("output", used["output"], size(limits.output_bytes)),
        ("files", used["files"], str(limits.artifacts)),
        ("size of files", used["size"], size(limits.artifacts_bytes)),
        ("size of /work", _UNKNOWN, size(limits.work_bytes)),
    ]
    told: list[RenderableType] = [
        tables.rows(("what", "value"), [(name, plain_line(value)) for name, value in facts]),
        Text(),
        tables.rows(("what", "used", "limit"), rows),
    ]
    if record.artifacts:
        files = [(artifact.name, size(artifact.size_bytes)) for artifact in record.artifacts]
        told += [Text(), tables.rows(("file", "size"), files, numbers=("size",))]
    return Group(*told)


def _line(record: RunRecord) -> tuple[str, ...]:
    used = _used(record)
    measured = (used[name] for name in ("time", "cpu", "memory", "output", "files"))
    return (record.run_id, record.skill, record.action, record.state.value, _time(record), *measured)


def _used(record: RunRecord) -> Mapping[str, str]:
    """What it used, by name; nothing is known of a run that goes on."""
    used = record.used
    if used is None:
        return defaultdict(lambda: _UNKNOWN)
    return {
        "time": _ms(used.wall_ms),
        "waited": _ms(used.waited_ms),
        "cpu": _ms(used.cpu_ms),
        "memory": _bytes(used.peak_bytes),
        "output": size(used.output_bytes),
        "files": str(used.artifacts),
        "size": size(used.artifacts_bytes),
    }


def _state(record: RunRecord) -> str:
    code = "" if record.exit_code is None else f", exit code {record.exit_code}"
    return f"{record.state.value}{code}{f': {record.detail}' if record.detail else ''}"


def _time(record: RunRecord) -> str:
    return record.began_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _ms(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"


def _bytes(amount: int | None) -> str:
    return _UNKNOWN if amount is None else size(amount)
