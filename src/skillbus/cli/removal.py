"""Removing: the question before it, and what becomes of each."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

import typer

from skillbus.cli.errors import EXIT_FAILED, ProblemError
from skillbus.cli.session import Session
from skillbus.cli.text import plain_line

FAILED: Final = "failed"


def confirm_removal(names: Sequence[str], *, as_json: bool) -> None:
    """Ask; where nobody can answer, that is wrong usage."""
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter("there is nobody to ask: say --yes", param_hint="--yes")
    typer.confirm(f"Remove {', '.join(names)}?", abort=True, err=True)


async def remove_each(
    session: Session, wanted: Sequence[str], remove: Callable[[str], Awaitable[object]], key: Literal["id", "name"]
) -> None:
    """Remove them one after the other, and go on after one that fails: the exit code tells.

    `key` is what a program finds each by in the document.
    """
    results = [{key: it, **await _remove(session, it, remove)} for it in wanted]
    if session.output.as_json:
        session.output.show({"results": results}, str)
    if any(result["outcome"] == FAILED for result in results):
        raise typer.Exit(EXIT_FAILED)


async def _remove(session: Session, it: str, remove: Callable[[str], Awaitable[object]]) -> dict[str, object]:
    try:
        await remove(it)
    except ProblemError as error:
        if not session.output.as_json:
            session.output.note(f"{plain_line(it)}: not removed", "red")
            session.output.fail(error)
        return {"outcome": FAILED, "error": error.document()}
    session.output.say(plain_line(f"{it}: removed"))
    return {"outcome": "removed"}
