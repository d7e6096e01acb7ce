"""Tables of tools and hits."""

import json
from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.output import clean_line, format_number
from skillbus.contracts.indexer.tools import CatalogueTool, ToolState, ToolSummary
from skillbus.contracts.retriever.tool_search import ToolsFound

_LIKELY: Final = 0.5
"""Score from which a tool is likely to fit: where the maps of ADR 0007 have as many relevant as irrelevant tools."""
_VALUE_CHARACTERS: Final = 2_000
"""Longest value of a quarantined tool that is shown: a hostile description may have megabytes."""


def render_hits(found: ToolsFound, *, explain: bool, separator: str = "\n") -> RenderableType:
    """Render the hits of a search, best first. `separator` stands between the reasons of a hit."""
    facts: list[Text] = []
    if explain and found.split:
        facts.append(tables.format_fact("searched each", " | ".join(found.split)))
    if explain and (how := found.explanation) is not None:
        facts.append(tables.format_threshold(how.threshold, how.below_threshold, how.best_score))
        facts.append(tables.format_stages(how.stages, "tool"))
        if how.terms:
            facts.append(tables.format_fact("terms, with translations", ", ".join(how.terms)))
    if not found.results:
        return Group(Text("Nothing fits. `--threshold 0` shows the nearest tools."), *facts)
    headings = ("id", "type", "score", "description", *(("reasons",) if explain else ()))
    rows: list[Sequence[str | Text]] = []
    for hit in found.results:
        reasons = Text(separator.join(tables.format_reasons(hit.cosine, hit.reasons)))
        description = tables.shorten_text(hit.description)
        row = (hit.id, hit.tool_type.value, f"{hit.score:.2f}", description)
        styled = [Text(clean_line(cell), "" if hit.score >= _LIKELY else "dim") for cell in row]
        rows.append((*styled, reasons) if explain else styled)
    table = tables.build_table(headings, rows, numbers=("score",), whole=("type",))
    likely = sum(hit.score >= _LIKELY for hit in found.results)
    if not likely:
        best = max(hit.score for hit in found.results)
        facts.insert(0, Text(f"No tool fits well: the best score is {best:.2f}, under {_LIKELY}."))
    share = f", {likely} likely to fit," if 0 < likely < len(rows) else ""
    summary = tables.format_search(len(rows), found.model, found.took_ms, found.degraded, share)
    return Group(table, summary, *facts)


def render_tools(found: Sequence[ToolSummary], total: int) -> RenderableType:
    """Render a part of the catalogue."""
    if not found:
        return Text("No tool matches. `skillbus tools import FILE` and `skillbus mcp add` add tools.")
    rows = []
    for tool in found:
        findings = f", {format_number(tool.findings, 'finding')}" if tool.findings else ""
        approval = ", needs approval" if tool.requires_approval else ""
        rows.append((tool.id, tool.tool_type.value, f"{tool.state.value}{approval}{findings}", tool.description))
    table = tables.build_table(("id", "type", "state", "description"), rows, whole=("type",))
    return Group(table, tables.format_count(len(found), total, "tool"))


def render_tool(found: CatalogueTool) -> RenderableType:
    """Render a tool, its findings, and how its pending description differs from the accepted one."""
    facts: dict[str, object] = {
        "state": found.state.value,
        "approval": _format_approval(found),
        **found.tool.model_dump(mode="json"),
    }
    facts |= {name: _shorten_value(facts[name]) if facts[name] else None for name in ("parameters", "metadata")}
    parts: list[RenderableType] = [tables.build_document(facts | {"updated_at": found.updated_at.isoformat()})]
    if found.findings:
        findings = [(it.code, it.where, it.message) for it in found.findings]
        parts += [Text(), tables.build_table(("finding", "where", "message"), findings)]
    if found.changes:
        changes = [(it.field, _shorten_value(it.before), _shorten_value(it.after)) for it in found.changes]
        parts += [Text(), tables.build_table(("field", "accepted", "pending"), changes)]
    if found.state is ToolState.QUARANTINED:
        parts.append(Text(clean_line(f"Accept it with: skillbus tools accept {found.tool.id}"), "dim"))
    return Group(*parts)


def format_state(tool: CatalogueTool) -> str:
    """Return the id and state of a tool."""
    return clean_line(f"{tool.tool.id}: {tool.state.value}{', needs approval' if tool.requires_approval else ''}")


def _format_approval(tool: CatalogueTool) -> str:
    """Return whether an agent's calls need an approval, and who says so."""
    if tool.approval_mark is not None:
        return "required by an operator" if tool.approval_mark else "not required, as an operator decided"
    return "required: its server states that it may destroy something" if tool.requires_approval else "not required"


def _shorten_value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}… ({len(text)} characters)"
