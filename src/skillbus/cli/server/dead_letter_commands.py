"""`skillbus dead-letters`."""

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli.client.http_api import DEAD_LETTERS
from skillbus.cli.output import clean_text
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.cli.tables import build_document, build_table
from skillbus.client.call import join_path
from skillbus.contracts.indexer.dead_letters import (
    MAX_DEAD_LETTERS,
    DeadLetter,
    DeadLetterDropped,
    DeadLetterReplayed,
    DeadLettersListed,
)

Consumer = Annotated[str | None, typer.Option("--consumer", help="Only those of this consumer.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Number of dead letters to show.")]
Numbers = Annotated[list[int], typer.Argument(min=1, help="Numbers of the dead letters.", metavar="NUMBER...")]
Number = Annotated[int, typer.Argument(min=1, help="Number of the dead letter.", metavar="NUMBER")]


@remote_command("skillbus dead-letters list", has_project=False)
async def list_dead_letters(session: Session, consumer: Consumer = None, limit: Limit = 100) -> None:
    """List the events that a consumer gave up on after its retries, oldest first."""
    params = {"consumer": consumer} if consumer is not None else {}
    found, page = await session.connection.list_rows(
        DeadLettersListed,
        DEAD_LETTERS,
        params,
        lambda page: (page.dead_letters, page.next),
        page_size=MAX_DEAD_LETTERS,
        limit=limit,
    )
    listed = page.model_copy(update={"dead_letters": tuple(found)})
    session.output.show_result(listed, lambda: _render_list(listed))


@remote_command("skillbus dead-letters show 7", has_project=False)
async def show_dead_letter(session: Session, number: Number) -> None:
    """Show a dead letter with its event."""
    letter = await session.connection.request(DeadLetter, "GET", join_path(DEAD_LETTERS, str(number)))
    facts = letter.model_dump(mode="json", exclude={"body", "body_truncated"}, exclude_none=True)
    cut = "\n… (cut)" if letter.body_truncated else ""
    body = Text(clean_text(letter.body) + cut)
    session.output.show_result(letter, lambda: Group(build_document(facts), Text(), body))


@remote_command("skillbus dead-letters replay 7 8", has_project=False)
async def replay_dead_letters(session: Session, numbers: Numbers) -> None:
    """Publish events again, after the cause of their failure is repaired.

    Every consumer of the event receives it. A dead letter is deleted once its event is stored.
    """

    async def replay_one(number: int) -> None:
        await session.connection.request(DeadLetterReplayed, "POST", join_path(DEAD_LETTERS, str(number), "replay"))

    await session.apply_each(numbers, replay_one, "sequence", "replayed")


@remote_command("skillbus dead-letters drop 7 --yes", has_project=False)
async def drop_dead_letters(session: Session, numbers: Numbers, yes: YesOption = False) -> None:
    """Delete dead letters without replaying them. Their events are lost."""
    if not yes:
        session.confirm_removal([f"dead letter {number}" for number in numbers])

    async def drop_one(number: int) -> None:
        await session.connection.request(DeadLetterDropped, "DELETE", join_path(DEAD_LETTERS, str(number)))

    await session.apply_each(numbers, drop_one, "sequence", "dropped")


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
