"""`skillbus audit`."""

from typing import Annotated

import typer

from skillbus.cli.errors import EXIT_FAILED
from skillbus.cli.session import Session
from skillbus.cli.tools import view as tool_tables

Fix = Annotated[bool, typer.Option("--fix", help="Mend what can be, and look again.")]


async def audit(session: Session, fix: Fix = False) -> None:
    """Show whether catalogue, knowledge base, vectors and what can be called agree.

    Exits with 0 only when they do: every tool of the catalogue is indexed as it is described and can be called, every
    active item of knowledge is indexed as it is, nothing else is, and every service and server could be asked.
    """
    found = await session.tools.audit(fix=fix)
    session.output.show(found, lambda: tool_tables.audit(found))
    if not found.agrees:
        raise typer.Exit(EXIT_FAILED)
