"""A conversation: questions and answers in turn, each turn with the messages before it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from re import fullmatch
from signal import SIGINT, signal
from typing import Final

from skillbus.cli.chat.turn import ChatSettings, Said, stream_turn
from skillbus.cli.chat.view import TurnView
from skillbus.cli.errors import CliError
from skillbus.cli.session import Session
from skillbus.contracts.agent.chat import ChatRole

_NEW: Final = "/new"
_QUIT: Final = "/quit"
_COMMANDS: Final = f"{_NEW} begins again, {_QUIT} or Ctrl-D ends, Ctrl-C cancels a turn"


async def hold_conversation(session: Session, settings: ChatSettings, read_question: Callable[[], str]) -> None:
    """Answer questions until there are no more. A turn that fails leaves the conversation as it was.

    `read_question` raises EOFError at the end, and KeyboardInterrupt if the question is taken back.
    """
    session.output.print_note(f"Chat with {settings.model}: {_COMMANDS}.")
    said = list[Said]()
    while True:
        try:
            # The event loop waits too: between two turns it has nothing to do.
            question = read_question().strip()
        except EOFError:
            session.output.print_note("")
            return
        except KeyboardInterrupt:
            session.output.print_note(f"\n{_COMMANDS}.")
            continue
        if question == _QUIT:
            return
        if question == _NEW:
            said.clear()
            session.output.print_note("A new conversation.")
        elif fullmatch(r"/[a-z]*", question):
            session.output.print_note(f"{question} is no command: {_COMMANDS}.")
        elif question:
            said += await _ask(session, settings, said, question)


async def _ask(session: Session, settings: ChatSettings, said: list[Said], question: str) -> tuple[Said, ...]:
    """Run a turn, and return what it adds to the conversation. Ctrl-C cancels it; the text so far counts."""
    asked, view = Said(ChatRole.USER, question), TurnView(session.output)
    turn = asyncio.create_task(stream_turn(session, settings, (*said, asked), view))
    try:
        with _cancel_at_interrupt(turn):
            await asyncio.wait([turn])
        await turn
    except asyncio.CancelledError:
        session.output.print_note("The turn is cancelled.")
    except CliError as error:
        session.output.print_error(error)
        return ()
    finally:
        turn.cancel()
        await asyncio.wait([turn])
    return (asked, Said(ChatRole.ASSISTANT, view.text)) if view.text else ()


@contextmanager
def _cancel_at_interrupt(turn: "asyncio.Task[None]") -> Iterator[None]:
    """Let Ctrl-C cancel a task, and nothing else."""
    loop = asyncio.get_running_loop()
    before = signal(SIGINT, lambda *_: loop.call_soon_threadsafe(turn.cancel))
    try:
        yield
    finally:
        signal(SIGINT, before)
