"""Outcome of a spoken command for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.output import clean_line
from skillbus.contracts.retriever.command_resolution import (
    CommandResolved,
    ResolutionStatus,
    ResolvedDevice,
    ResolvedQuery,
)
from skillbus.contracts.retriever.query_ir import QueryIR

_STATUS_STYLES: Final = {ResolutionStatus.RESOLVED: "green", ResolutionStatus.AMBIGUOUS: "yellow"}

_ROWS: Final = 50
"""Devices of a command that are shown. `--json` has all of them."""


def render_resolution(found: CommandResolved) -> RenderableType:
    """Render each command of a sentence: what was understood, the devices, candidates, dropped devices, a question."""
    parts: list[RenderableType] = []
    for result in found.results:
        parts += [*([Text()] if parts else []), *_render_query(result)]
    reader = found.model if found.parsed_by == "model" and found.model else found.parsed_by
    problem = f"; the model was of no help: {found.model_problem}" if found.model_problem else ""
    return Group(*parts, Text(clean_line(f"{found.took_ms:.1f} ms, parsed by {reader}{problem}"), "dim"))


def _render_query(result: ResolvedQuery) -> Iterator[RenderableType]:
    style = _STATUS_STYLES.get(result.status, "red")
    yield Text.assemble(
        (result.status.value, style), f" {result.confidence:.2f}  ", (clean_line(format_query(result.query)), "bold")
    )
    if result.devices:
        yield _build_device_table(result.devices[:_ROWS])
        yield from _note_more(len(result.devices))
        if result.more_devices:
            yield Text(f"and {result.more_devices} for which the reply has no room: name a room or a type", "dim")
    if result.candidates:
        if result.devices:
            yield Text()
        candidates = [
            (it.name, it.room or "-", it.type, f"{it.confidence:.2f}", ", ".join(it.reasons) or "-")
            for it in result.candidates
        ]
        columns = ("candidate", "room", "type", "confidence", "reasons")
        yield tables.build_table(columns, candidates, numbers=("confidence",), whole=("type",))
    if result.dropped:
        if result.devices or result.candidates:
            yield Text()
        dropped = [(it.name, it.reason.value, it.detail) for it in result.dropped[:_ROWS]]
        yield tables.build_table(("dropped", "why", "detail"), dropped, whole=("why",))
        yield from _note_more(len(result.dropped))
    if result.question:
        yield Text(clean_line(result.question), "cyan")


def _note_more(number: int) -> Iterator[RenderableType]:
    if number > _ROWS:
        yield Text(f"and {number - _ROWS} more: --json lists all", "dim")


def _build_device_table(devices: Sequence[ResolvedDevice]) -> RenderableType:
    """Build the table of the devices with their commands; with a column for arguments only if a command has any."""
    has_arguments = any(it.command.arguments for it in devices)
    rows = []
    for it in devices:
        arguments = (format_arguments(it.command.arguments),) if has_arguments else ()
        command = (it.command.id, *arguments, f"{it.command.score:.2f}")
        rows.append((it.name, it.room or "-", *command, ", ".join(it.reasons) or "-"))
    headings = ("device", "room", "command", *(("arguments",) if has_arguments else ()), "score", "reasons")
    return tables.build_table(headings, rows, numbers=("score",), whole=("command",), optional=("room", "reasons"))


def format_query(query: QueryIR) -> str:
    """Return the fields of a QueryIR on one line, those without a value left out."""
    parts = [f"{query.action or '-'} ({query.action_code})" if query.action_code else query.action or "-"]
    named = {
        "quantifier": query.quantifier.value if query.quantifier else "",
        "name": query.name_hint or "",
        "type": query.type_hint or "",
        "in": ", ".join(query.scope_include),
        "except": ", ".join(query.scope_exclude),
        "refers to": ", ".join(query.references),
    }
    parts += [f"{name}: {value}" for name, value in named.items() if value]
    arguments = query.arguments.model_dump(mode="json", exclude_none=True)
    return "; ".join(parts + ([format_arguments(arguments)] if arguments else []))


def format_arguments(arguments: Mapping[str, JsonValue]) -> str:
    """Return arguments as `name=value`, or `-` for none."""
    return ", ".join(f"{name}={_format_value(value)}" for name, value in arguments.items()) or "-"


def _format_value(value: JsonValue) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
