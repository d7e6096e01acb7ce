"""`skillbus status`."""

import typer
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.errors import EXIT_FAILED
from skillbus.cli.session import Session


async def status(session: Session) -> None:
    """Show whether every service is ready, and what is indexed.

    Exits with 1 when the whole is not ready.
    """
    found = await session.client.status()
    session.output.show(found, lambda: tables.services(found))
    if found.indexer is not None:
        session.output.say(tables.document(found.indexer.model_dump(mode="json")))
    session.output.say(Text("ready" if found.ready else "not ready", "bold"))
    if not found.ready:
        raise typer.Exit(EXIT_FAILED)
