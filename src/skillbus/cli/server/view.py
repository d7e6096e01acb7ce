"""Tables of the system: services, counts and audits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli import tables

if TYPE_CHECKING:
    from skillbus.contracts.http import AuditReport, SystemStatus
    from skillbus.contracts.indexer.skills import IndexerStatus
    from skillbus.contracts.indexer.tools import AuditDifference

_IDS: Final = 5
"""Ids of a difference that are shown. `--json` has all of them."""
_COUNTS: Final = {
    "skills": "skills, all projects",
    "tools": "tools besides skills, all projects",
    "waiting": "skills waiting to be indexed, all projects",
    "points": "points in the vector store, all projects",
    "devices": "devices of homes, all projects",
    "commands": "commands of devices, all projects",
}


def render_services(status: SystemStatus) -> RenderableType:
    """Render the readiness of each service."""
    rows = [(check.name, tables.format_yes(check.ready), check.detail) for check in status.services]
    return tables.build_table(("service", "ready", "detail"), rows)


def render_counts(status: IndexerStatus) -> RenderableType:
    """Render the counts of the indexer. They are of all projects, where `list` shows one."""
    facts = status.model_dump(mode="json")
    return tables.build_document({_COUNTS.get(name, name): fact for name, fact in facts.items()})


def render_audit(report: AuditReport) -> RenderableType:
    """Render the counts of an audit, its repairs, and its remaining differences."""
    parts: list[RenderableType] = [tables.build_table(("what", "count"), _count_parts(report), numbers=("count",))]
    if report.repaired:
        rows = [(it.kind.replace("_", " "), str(it.count), str(it.fixed), _format_ids(it)) for it in report.repaired]
        parts += [Text(), tables.build_table(("repaired", "found", "fixed", "ids"), rows, numbers=("found", "fixed"))]
    if differences := list(_list_differences(report)):
        headings = ("between", "difference", "count", "ids")
        parts += [Text(), tables.build_table(headings, differences, numbers=("count",))]
    verdict = "Records, indexes and callable tools " + ("agree." if report.agrees else "differ.")
    return Group(*parts, Text(verdict, "bold"))


def _count_parts(report: AuditReport) -> Iterator[tuple[str, str]]:
    index, calls = report.index, report.calls
    yield "active tools in the catalogue", _format_number(index.catalogued if index else None)
    yield "indexed tools", _format_number(index.indexed if index else None)
    yield "disabled or quarantined tools", _format_number(index.inactive if index else None)
    if index is not None and (index.knowledge is not None or index.knowledge_indexed is not None):
        yield "active knowledge items", _format_number(index.knowledge)
        yield "indexed knowledge items", _format_number(index.knowledge_indexed)
    if index is not None and (index.devices or index.devices_indexed):
        yield "devices", str(index.devices)
        yield "indexed devices", str(index.devices_indexed)
    if index is not None and (index.commands or index.commands_indexed):
        yield "commands of devices", str(index.commands)
        yield "indexed commands", str(index.commands_indexed)
    yield "active MCP and builtin tools", _format_number(calls.catalogued if calls else None)
    yield "callable tools", _format_number(calls.callable if calls else None)


def _format_number(number: int | None) -> str:
    return "?" if number is None else str(number)


def _list_differences(report: AuditReport) -> Iterator[tuple[str, str, str, str]]:
    for part in report.missing:
        yield part.service, "no reply", "?", part.message
    if report.index is not None and report.index.knowledge_problem:
        yield "index", "knowledge not compared", "?", report.index.knowledge_problem
    for server in report.calls.silent if report.calls else ():
        yield "calls", "MCP server does not answer", "?", server
    sides: Iterable[tuple[str, tuple[AuditDifference, ...]]] = (
        ("index", report.index.differences if report.index else ()),
        ("calls", report.calls.differences if report.calls else ()),
    )
    for side, differences in sides:
        for it in differences:
            yield side, it.kind.replace("_", " "), str(it.count), _format_ids(it)


def _format_ids(difference: AuditDifference) -> str:
    shown = difference.ids[:_IDS]
    more = f" and {difference.count - len(shown)} more" if difference.count > len(shown) else ""
    return ", ".join(shown) + more
