"""`skillbus status`."""

from typing import TYPE_CHECKING, Final

import typer
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.errors import EXIT_FAILED
from skillbus.cli.session import Session
from skillbus.cli.text import plain_line

if TYPE_CHECKING:
    from skillbus.cli.client.replies import SystemStatus


_WITHOUT: Final = {
    "sandbox": "runs are refused",
    "agent": "MCP and builtin tools cannot be called",
    "learner": "knowledge is neither kept nor found",
}
"""What is lost without a service that the whole can do without."""


async def status(session: Session) -> None:
    """Show whether every service is ready, and what is indexed.

    Exits with 1 when the whole is not ready. It is ready, and says so, when only runs are refused, because the machine
    cannot isolate them; when only MCP and builtin tools cannot be called, because the agent is away; or when only
    knowledge is missing, because the learner is.
    """
    found = await session.client.status()
    session.output.show(found, lambda: tables.services(found))
    if found.indexer is not None:
        session.output.say(tables.held(found.indexer))
    session.output.say(Text(plain_line(verdict(found)), "bold"))
    if not found.ready:
        raise typer.Exit(EXIT_FAILED)


def verdict(found: "SystemStatus") -> str:
    """The whole in a line."""
    if not found.ready:
        return "not ready"
    exceptions = [
        f"{_WITHOUT.get(check.name, f'{check.name} is not')}: {check.detail or 'not ready'}"
        for check in found.services
        if not check.ready
    ]
    return f"ready, but {'; '.join(exceptions)}" if exceptions else "ready"
