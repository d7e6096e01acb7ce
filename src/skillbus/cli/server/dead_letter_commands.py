"""`skillbus dead-letters`."""

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli.client.dead_letters import DeadLettersClient
from skillbus.cli.output import clean_text
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.cli.tables import build_document, build_table
from skillbus.contracts.indexer.dead_letters import DeadLetter, DeadLettersListed

Consumer = Annotated[str | None, typer.Option("--consumer", help="Only those of this consumer.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Number of dead letters to show.")]
Numbers = Annotated[list[int], typer.Argument(min=1, help="Numbers of the dead letters.", metavar="NUMBER...")]
Number = Annotated[int, typer.Argument(min=1, help="Number of the dead letter.", metavar="NUMBER")]


@remote_command("skillbus dead-letters list", has_project=False)
async def list_dead_letters(session: Session, consumer: Consumer = None, limit: Limit = 100) -> None:
    """List the events that a consumer gave up on after its retries, oldest first."""
    listed = await DeadLettersClient(session.connection).list_all(consumer, limit)
    session.output.show_result(listed, lambda: _render_list(listed))


@remote_command("skillbus dead-letters show 7", has_project=False)
async def show_dead_letter(session: Session, number: Number) -> None:
    """Show a dead letter with its event."""
    letter = await DeadLettersClient(session.connection).get(number)
    session.output.show_result(letter, lambda: _render_letter(letter))


@remote_command("skillbus dead-letters replay 7 8", has_project=False)
async def replay_dead_letters(session: Session, numbers: Numbers) -> None:
    """Publish events again, after the cause of their failure is repaired.

    Every consumer of the event receives it. A dead letter is deleted once its event is stored.
    """
    await session.apply_each(numbers, DeadLettersClient(session.connection).replay, "sequence", "replayed")


@remote_command("skillbus dead-letters drop 7 --yes", has_project=False)
async def drop_dead_letters(session: Session, numbers: Numbers, yes: YesOption = False) -> None:
    """Delete dead letters without replaying them. Their events are lost."""
    if not yes:
        session.confirm_removal([f"dead letter {number}" for number in numbers])
    await session.apply_each(numbers, DeadLettersClient(session.connection).drop, "sequence", "dropped")


def _render_list(listed: DeadLettersListed) -> RenderableType:
    if not listed.dead_letters:
        return Text("There are no dead letters.")
    rows = [
        (str(letter.sequence), f"{letter.stored_at:%Y-%m-%d %H:%M}", letter.consumer, letter.subject, letter.error)
        for letter in listed.dead_letters
    ]
    table = build_table(("number", "stored", "consumer", "subject", "error"), rows, numbers=("number",))
    if listed.total == len(rows):
        return table
    return Group(table, Text(f"{len(rows)} of {listed.total}: --limit shows more", "dim"))


def _render_letter(letter: DeadLetter) -> RenderableType:
    about = letter.model_dump(mode="json", exclude={"body", "body_truncated"}, exclude_none=True)
    cut = "\n… (cut)" if letter.body_truncated else ""
    return Group(build_document(about), Text(), Text(clean_text(letter.body) + cut))
