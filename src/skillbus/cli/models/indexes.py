"""`skillbus index`."""

from typing import Annotated

import typer

from skillbus.cli.models import view as model_tables
from skillbus.cli.models.switch_follower import follow_switch, is_running
from skillbus.cli.session import Session

Alias = Annotated[str, typer.Argument(help="Which index.")]
Follow = Annotated[bool, typer.Option("--follow/--no-follow", help="Wait until it is done.")]


async def status(session: Session) -> None:
    """Show with vectors of which model each index is searched, and how far a change to another one is."""
    listed = await session.models.indexes()
    session.output.show(listed, lambda: model_tables.indexes(listed.indexes))


async def switch(session: Session, index: Alias = "tools", follow: Follow = True) -> None:
    """Take an index to the default model now, also after a rollback. It goes on without us after Ctrl-C."""
    state = await session.models.switch(index)
    if follow and state.switch is not None and is_running(state.switch):
        target = state.switch.target.fingerprint
        (state,) = await follow_switch(session.models, session.output, target, only=state.alias)
    session.output.show(state, lambda: model_tables.indexes((state,)))


async def rollback(session: Session, index: Alias = "tools") -> None:
    """Go back to what was searched before the last change of model, or give up one that runs."""
    state = await session.models.roll_back(index)
    session.output.show(state, lambda: model_tables.indexes((state,)))
