"""`skillbus list` and `skillbus remove`."""

from typing import Annotated

import typer

from skillbus.cli import tables
from skillbus.cli.removal import confirm_removal, remove_each
from skillbus.cli.session import Session
from skillbus.cli.skills.names import checked_name

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Skills to remove.")]
Tag = Annotated[str | None, typer.Option("--tag", help="Only skills that have it.")]
TextIn = Annotated[str | None, typer.Option("--text", help="Only skills with this in their name or description.")]
Enabled = Annotated[bool | None, typer.Option("--enabled/--disabled", help="Only those; both if absent.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


async def list_skills(session: Session, tag: Tag = None, text: TextIn = None, enabled: Enabled = None) -> None:
    """List the installed skills."""
    only = {"tag": tag, "text": text, "enabled": None if enabled is None else str(enabled).lower()}
    found = await session.client.skills({name: value for name, value in only.items() if value is not None})
    document = {"skills": [skill.model_dump(mode="json") for skill in found], "total": len(found)}
    session.output.show(document, lambda: tables.skills(found))


async def remove(session: Session, names: Names, yes: Yes = False) -> None:
    """Remove skills: folder, vectors, package and catalogue entry."""
    wanted = list(dict.fromkeys(map(checked_name, names)))
    if not yes:
        confirm_removal(wanted, as_json=session.output.as_json)
    await remove_each(session, wanted, session.client.remove, "name")
