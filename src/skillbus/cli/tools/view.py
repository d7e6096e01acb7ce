"""How tools, MCP servers, imports and audits look to people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.text import plain_line, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from skillbus.cli.client.replies import Audit, LineImported, ToolsImported
    from skillbus.contracts.agent.mcp_servers import McpServer
    from skillbus.contracts.indexer.skill_record import Skill, SkillFinding
    from skillbus.contracts.indexer.skills import SkillChecked, SkillHistory
    from skillbus.contracts.indexer.tools import AuditDifference, CatalogueTool, ToolFinding, ToolSummary

_IDS: Final = 5
_VALUE_CHARACTERS: Final = 2_000
"""Of a field of a quarantined tool: a description of megabytes is cut, and says so."""


def imported(report: ToolsImported) -> RenderableType:
    """What became of descriptions: how many of each outcome, and the lines that somebody should look at."""
    lines = [(str(it.line), it.id or "-", it.outcome, _said(it)) for it in report.results]
    later = "" if report.indexed else "; search finds them when the store and the embedder are back"
    return tables.outcomes("tools", report.counts, ("line", lines), f"{report.total} tools{later}")


def tools(found: Sequence[ToolSummary], total: int) -> RenderableType:
    """A part of the catalogue."""
    if not found:
        return Text("No tool is like that. `skillbus import tools FILE` and `skillbus mcp add` add some.")
    lines = [
        (it.id, it.tool_type.value, it.state.value + (f", {it.findings} found" if it.findings else ""), it.description)
        for it in found
    ]
    how_many = f"{len(found)} of {total} tools" if len(found) < total else f"{total} tools"
    return Group(tables.rows(("id", "type", "state", "description"), lines), Text(how_many, "dim"))


def tool(found: CatalogueTool) -> RenderableType:
    """A tool, what was found in it, and how what waits differs from what was accepted."""
    facts: dict[str, object] = {"state": found.state.value, **found.tool.model_dump(mode="json")}
    facts["parameters"] = _value(facts["parameters"]) if facts["parameters"] else None
    facts["metadata"] = _value(facts["metadata"]) if facts["metadata"] else None
    parts: list[RenderableType] = [tables.document(facts | {"updated_at": found.updated_at.isoformat()})]
    if found.findings:
        parts += [Text(), tables.rows(("found", "where", "what"), _findings(found.findings))]
    if found.changes:
        changes = [(it.field, _value(it.before), _value(it.after)) for it in found.changes]
        parts += [Text(), tables.rows(("field", "accepted", "would become"), changes)]
    if found.state.value == "quarantined":
        parts.append(Text(plain_line(f"accept it with: skillbus tools accept {found.tool.id}"), "dim"))
    return Group(*parts)


def servers(found: Sequence[McpServer]) -> RenderableType:
    """MCP servers, and how they are."""
    if not found:
        return Text("No MCP server is registered. `skillbus mcp add NAME --url URL` adds one.")
    lines = [(it.name, it.state.value, str(it.tools), str(it.quarantined), it.address, _state(it)) for it in found]
    headings = ("name", "state", "tools", "quarantined", "address", "what")
    return tables.rows(headings, lines, numbers=("tools", "quarantined"))


def audit(found: Audit) -> RenderableType:
    """The numbers beside one another, and whatever makes them differ."""
    parts: list[RenderableType] = [tables.rows(("what", "count"), _numbers(found), numbers=("count",))]
    if repaired := list(_differences("", found.repaired)):
        lines = [
            (kind, count, str(it.fixed), ids)
            for (_, kind, count, ids), it in zip(repaired, found.repaired, strict=True)
        ]
        parts += [Text(), tables.rows(("repaired", "found", "mended", "which"), lines, numbers=("found", "mended"))]
    if wrong := list(_wrong(found)):
        parts += [Text(), tables.rows(("between", "difference", "count", "which"), wrong, numbers=("count",))]
    said = "Catalogue, knowledge base, indexes and what can be called agree." if found.agrees else "They do not agree."
    parts.append(Text(said, "bold"))
    return Group(*parts)


def checked(found: SkillChecked) -> RenderableType:
    """What the validation says of a package."""
    verdict = (
        "valid to the letter" if found.valid else "can be installed" if found.installable else "cannot be installed"
    )
    parts: list[RenderableType] = [Text(plain_line(f"{found.name or 'the package'}: {verdict}"), "bold")]
    kinds = (("error", found.errors), ("warning", found.warnings))
    lines = [(kind, it.where, it.message, it.code) for kind, findings in kinds for it in findings]
    if lines:
        parts.append(tables.rows(("kind", "where", "what", "code"), lines))
    if found.scan is not None:
        scan = found.scan
        parts.append(Text(f"{scan.files} files, {size(scan.unpacked_bytes)}, {len(scan.scripts)} scripts", "dim"))
        wishes = [(f"{it.file}:{it.line}", it.what) for it in scan.network]
        parts += [tables.rows(("network wish at", "of"), wishes)] if wishes else []
        parts += [Text(plain_line(f"machine code: {', '.join(scan.executables)}"))] if scan.executables else []
    return Group(*parts)


def history(found: SkillHistory) -> RenderableType:
    """The packages of a skill, the current one first."""
    lines = [
        (it.content_digest[:12], it.version or "-", it.reason, f"{it.installed_at:%Y-%m-%d %H:%M}", it.description)
        for it in found.versions
    ]
    return tables.rows(("content", "version", "reason", "when", "description"), lines)


def network(skill: Skill) -> RenderableType:
    """What a skill wants to reach, and what of it is approved."""
    if not skill.network:
        return plain_line(f"{skill.name} wants no network")
    states = [(place, "approved" if place in skill.network_approved else "waits") for place in skill.network]
    return tables.rows(("place", "state"), states)


def _said(line: LineImported) -> str:
    return "; ".join(filter(None, (line.error, *(it.message for it in line.findings))))


def _findings(findings: Iterable[ToolFinding | SkillFinding]) -> list[tuple[str, str, str]]:
    return [(it.code, it.where, it.message) for it in findings]


def _state(server: McpServer) -> str:
    return "; ".join(filter(None, (server.problem, *(it.message for it in server.findings))))


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}… ({len(text)} characters)"


def _numbers(found: Audit) -> Iterator[tuple[str, str]]:
    index, calls = found.index, found.calls
    yield "in the catalogue, active", "?" if index is None else str(index.catalogued)
    yield "indexed", "?" if index is None else str(index.indexed)
    yield "in the catalogue, disabled or quarantined", "?" if index is None else str(index.inactive)
    if index is not None and (index.knowledge is not None or index.knowledge_indexed is not None):
        yield "items of knowledge, active", _number(index.knowledge)
        yield "items of knowledge, indexed", _number(index.knowledge_indexed)
    yield "of MCP servers and builtin, active", "?" if calls is None else str(calls.catalogued)
    yield "callable", "?" if calls is None else str(calls.callable)


def _number(known: int | None) -> str:
    return "?" if known is None else str(known)


def _wrong(found: Audit) -> Iterator[tuple[str, str, str, str]]:
    for part in found.missing:
        yield part.service, "could not be asked", "?", part.message
    if found.index is not None and found.index.knowledge_problem:
        yield "index", "knowledge could not be compared", "?", found.index.knowledge_problem
    for server in found.calls.silent if found.calls else ():
        yield "calls", "a server is silent", "?", server
    yield from _differences("index", found.index.differences if found.index else ())
    yield from _differences("calls", found.calls.differences if found.calls else ())


def _differences(between: str, differences: Iterable[AuditDifference]) -> Iterator[tuple[str, str, str, str]]:
    for it in differences:
        shown = it.ids[:_IDS]
        more = f" and {it.count - len(shown)} more" if it.count > len(shown) else ""
        yield between, it.kind.replace("_", " "), str(it.count), ", ".join(shown) + more
