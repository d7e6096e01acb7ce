"""Tables of skills."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.output import clean_line, format_number, format_size
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import SkillChecked, SkillHistory


def render_skills(found: Sequence[Skill]) -> RenderableType:
    """Render installed skills."""
    if not found:
        return Text("No skill is installed. `skillbus install PATH` adds one.")
    rows = []
    for skill in found:
        indexed = ("yes" if skill.indexed else "waiting") if skill.enabled else "disabled"
        rows.append((skill.name, skill.version or "-", indexed, format_size(skill.size_bytes), skill.description))
    table = tables.build_table(("name", "version", "indexed", "size", "description"), rows, numbers=("size",))
    return Group(table, Text(format_number(len(found), "skill"), "dim"))


def render_check(found: SkillChecked) -> RenderableType:
    """Render the findings of a validation, and what the scan of the package saw."""
    if found.valid:
        verdict = "valid without warnings"
    else:
        verdict = "can be installed" if found.installable else "cannot be installed"
    parts: list[RenderableType] = [Text(clean_line(f"{found.name or 'the package'}: {verdict}"), "bold")]
    kinds = (("error", found.errors), ("warning", found.warnings))
    rows = [(kind, it.where, it.message, it.code) for kind, findings in kinds for it in findings]
    if rows:
        parts.append(tables.build_table(("kind", "where", "message", "code"), rows))
    if (scan := found.scan) is not None:
        size = format_size(scan.unpacked_bytes)
        parts.append(
            Text(f"{format_number(scan.files, 'file')}, {size}, {format_number(len(scan.scripts), 'script')}", "dim")
        )
        if scan.network:
            places = [(f"{it.file}:{it.line}", it.what) for it in scan.network]
            parts.append(tables.build_table(("network use at", "place"), places))
        if scan.executables:
            parts.append(Text(clean_line(f"machine code: {', '.join(scan.executables)}")))
    return Group(*parts)


def render_history(found: SkillHistory) -> RenderableType:
    """Render the packages of a skill, the current one first."""
    rows = [
        (it.content_digest[:12], it.version or "-", it.reason, f"{it.installed_at:%Y-%m-%d %H:%M}", it.description)
        for it in found.versions
    ]
    return tables.build_table(("content", "version", "reason", "time (UTC)", "description"), rows, whole=("content",))


def render_network(skill: Skill) -> RenderableType:
    """Render the network places that a skill requests, and which of them are approved."""
    if not skill.network:
        return clean_line(f"{skill.name} requests no network")
    rows = [(place, "approved" if place in skill.network_approved else "waits") for place in skill.network]
    return tables.build_table(("place", "state"), rows)
