"""Hints for a name that the server does not know: names near to it, and the command that lists all."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skillbus.cli.completion import NameList
from skillbus.cli.errors import CliError, ProblemError
from skillbus.cli.near_names import find_near_names, format_question

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

_UNKNOWN: Final = frozenset({"not_found", "skill_not_found"})
_PAGE_ROWS: Final = "1000"
_PAGES: Final = 10
"""Pages of a sorted list that are read. A misspelt name beyond 10,000 gets no suggestion."""


async def add_name_hint(
    connection: "ApiConnection", error: ProblemError, arguments: Sequence[tuple[str, NameList]]
) -> None:
    """Put the hint in place of the advice, if the problem is that a name among the arguments is unknown."""
    # If the command has several names, the message says which one is unknown.
    named = [it for it in arguments if len(arguments) == 1 or it[0] in error.detail]
    if error.problem_code not in _UNKNOWN or len(named) != 1:
        return
    ((word, names),) = named
    try:
        error.near_names = find_near_names(word, await _list_names(connection, names))
    except (CliError, ValueError, LookupError, TypeError, AttributeError):
        return  # a key may call what it may not list, and a hint must not hide the problem behind another one
    if error.near_names:
        error.advice = format_question(error.near_names)
    if names.command not in error.detail:
        error.advice += f" `{names.command}` shows what there is."


async def _list_names(connection: "ApiConnection", names: NameList) -> list[str]:
    found: list[str] = []
    query = {**names.params, **({"limit": _PAGE_ROWS} if names.is_sorted else {}), **connection.scope}
    for _ in range(_PAGES):
        response = await connection.send("GET", names.path, params=query)
        page = json.loads(response.content)
        found += [name for row in page[names.rows] for name in names.read_names(row)]
        if not names.is_sorted or page.get("next") is None:
            break
        query["after"] = page["next"]
    return found
