"""`skillbus index`."""

from typing import Annotated

import typer

from skillbus.cli.client.models import ModelsClient
from skillbus.cli.models.switch_follower import follow_switch, is_running
from skillbus.cli.models.view import render_indexes
from skillbus.cli.session import Session, remote_command

Alias = Annotated[str, typer.Argument(help="Name of the index: tools or knowledge.")]
Follow = Annotated[bool, typer.Option("--follow/--no-follow", help="Wait until the switch is done.")]


@remote_command("skillbus index status", has_project=False)
async def show_indexes(session: Session) -> None:
    """Show the model of each index, and the progress of its last switch to another model."""
    listed = await ModelsClient(session.connection).list_indexes()
    session.output.show_result(listed, lambda: render_indexes(listed.indexes))


@remote_command("skillbus index switch tools", has_project=False)
async def switch_index(session: Session, index: Alias = "tools", follow: Follow = True) -> None:
    """Switch an index to the default model, also after a rollback.

    Searches work during the switch. Ctrl-C ends the waiting, not the switch.
    """
    client = ModelsClient(session.connection)
    state = await client.switch_index(index)
    if follow and state.switch is not None and is_running(state.switch):
        target = state.switch.target.fingerprint
        (state,) = await follow_switch(client, session.output, target, only=state.alias)
    session.output.show_result(state, lambda: render_indexes((state,)))


@remote_command("skillbus index rollback tools", has_project=False)
async def roll_back_index(session: Session, index: Alias = "tools") -> None:
    """Undo the last switch of an index, or cancel one that is running."""
    state = await ModelsClient(session.connection).roll_back_index(index)
    session.output.show_result(state, lambda: render_indexes((state,)))
