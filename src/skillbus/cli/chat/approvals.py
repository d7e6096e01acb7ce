"""Approvals at the terminal: a call that waits is shown with all its arguments, and answered with y or n."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import TypeAlias

from skillbus.cli.client.http_api import CHAT_RUNS
from skillbus.cli.errors import ProblemError
from skillbus.cli.output import clean_text
from skillbus.cli.session import Session
from skillbus.client.call import join_path
from skillbus.contracts.agent.approvals import CallApproval
from skillbus.contracts.chat_http import ChatChunk, DecisionsTaken
from skillbus.contracts.errors import ErrorCode

AskPerson: TypeAlias = Callable[[str], str]
"""Shows a question and returns the answer. Raises EOFError and KeyboardInterrupt."""
_ID_PREFIX = "chatcmpl-"


def can_ask(session: Session) -> bool:
    """Return True if somebody sits at the terminal who can be asked."""
    return not session.output.as_json and sys.stdin.isatty() and sys.stderr.isatty()


async def answer_approval(session: Session, chunk: ChatChunk, ask: AskPerson) -> None:
    """Ask about the call that begins to wait with a chunk, if there is one, and send the decision.

    Ctrl-C cancels the turn, Ctrl-D denies the call.
    """
    told = chunk.skillbus
    if told is None or told.kind != "approval_required" or told.approval is None:
        return
    waiting = told.approval
    try:
        approved = ask(format_question(waiting)).strip().casefold() in {"y", "yes"}
    except EOFError:
        approved = False
    except KeyboardInterrupt:
        raise asyncio.CancelledError from None
    path = join_path(CHAT_RUNS, chunk.id.removeprefix(_ID_PREFIX), "approve")
    body = {"decisions": [{"call_id": waiting.call_id, "approved": approved}]}
    try:
        await session.connection.request(DecisionsTaken, "POST", path, params=session.connection.scope, json=body)
    except ProblemError as error:
        if error.problem_code != ErrorCode.NOT_FOUND:
            raise
        session.output.print_note("The call waits no longer: its time is over, or somebody else has decided.", "yellow")


def format_question(waiting: CallApproval) -> str:
    """Return the question about a call. All of its arguments are shown: who approves it has to know them."""
    action = f" {waiting.action}" if waiting.action else ""
    arguments = json.dumps(waiting.arguments, ensure_ascii=False)
    program = " from a program" if waiting.program_call_id else ""
    question = f"Call {waiting.id}{action}{program} with {arguments}? It needs an approval, as {waiting.reason}."
    return f"{clean_text(question)} [y/N] "
