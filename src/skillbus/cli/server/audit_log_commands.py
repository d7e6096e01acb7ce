"""`skillbus audit log`."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli.session import Session, remote_command
from skillbus.cli.tables import build_table
from skillbus.contracts.indexer.audit_log import MAX_AUDIT_FACTS, AuditEntry, AuditLogListed

Act = Annotated[str | None, typer.Option("--act", help="Only this act, such as install_skill.")]
ActorOption = Annotated[str | None, typer.Option("--by", help="Only acts of this actor: owner, or the id of a key.")]
Subject = Annotated[str | None, typer.Option("--subject", help="Only acts on this thing, such as a skill's name.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Number of acts to show.")]


@remote_command("skillbus audit log --act create_api_key")
async def list_audit_log(
    session: Session, act: Act = None, by: ActorOption = None, subject: Subject = None, limit: Limit = 50
) -> None:
    """List the administrative acts, newest first: who did what, when, and from where.

    A key of one project sees the acts of this project. The owner sees all, or those of --project.
    """
    given = {"act": act, "actor": by, "subject": subject}
    found, page = await session.connection.list_rows(
        AuditLogListed,
        "/api/audit-log",
        {name: value for name, value in given.items() if value is not None},
        lambda page: (page.facts, page.next),
        page_size=MAX_AUDIT_FACTS,
        limit=limit,
        cursor="before",
    )
    listed = page.model_copy(update={"facts": tuple(found)})
    is_wide = session.output.out.width >= _WIDE_CELLS
    session.output.show_result(
        listed, lambda: _render_facts(listed.facts, has_more=page.next is not None, is_wide=is_wide)
    )


_SHOWN: Final = 2
"""Ids in a row of the table."""
_WIDE_CELLS: Final = 120
"""Width of a terminal from which the table has all columns."""


def _render_facts(facts: Sequence[AuditEntry], *, has_more: bool, is_wide: bool) -> RenderableType:
    """Render acts. A narrow table leaves out from where an act came, its project and its choices; --json has all."""
    if not facts:
        return Text("No acts are recorded.")
    if not is_wide:
        narrow = [
            (f"{it.at:%m-%d %H:%M:%S}", it.actor or "", it.act, _name_subjects(it, 1), _name_outcome(it))
            for it in facts
        ]
        table = build_table(("time", "by", "act", "on", "outcome"), narrow, whole=("time",))
        return Group(table, Text("--limit shows more", "dim")) if has_more else table
    rows = [
        (
            f"{fact.at:%Y-%m-%d %H:%M:%S}",
            fact.actor or "",
            fact.address or fact.account or fact.door.value,
            fact.act,
            " ".join(filter(None, (_name_subjects(fact, _SHOWN), _list_details(fact)))),
            fact.project or "",
            _name_outcome(fact),
        )
        for fact in facts
    ]
    table = build_table(("time", "by", "from", "act", "on", "project", "outcome"), rows, whole=("time",))
    return Group(table, Text("--limit shows more", "dim")) if has_more else table


def _name_subjects(fact: AuditEntry, limit: int) -> str:
    """Return what was changed. `--json` has more of the ids."""
    shown = fact.subjects[:limit]
    more = f" and {fact.count - len(shown)} more" if fact.count > len(shown) else ""
    return f"{', '.join(shown)}{more}"


def _list_details(fact: AuditEntry) -> str:
    details = ", ".join(f"{name}={_format_value(value)}" for name, value in fact.details.items())
    return f"({details})" if details else ""


def _name_outcome(fact: AuditEntry) -> str:
    return fact.outcome.value if fact.code is None else f"{fact.outcome.value}: {fact.code.value}"


def _format_value(value: bool | str | tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else " ".join(value)
