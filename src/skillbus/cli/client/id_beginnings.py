"""Beginnings of ids that the server made: a command takes one in place of the id."""

import json
import re
from collections.abc import Mapping
from inspect import Parameter
from typing import TYPE_CHECKING, Final

import typer

from skillbus.cli.completion import NameList, find_names

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

_PAGES: Final = 10
_SHOWN: Final = 5


async def complete_ids(
    connection: "ApiConnection", parameters: Mapping[str, Parameter], given: Mapping[str, object]
) -> dict[str, object]:
    """Return the arguments of a command with the whole ids in place of their beginnings.

    Raises:
        typer.BadParameter: More than one of the newest ids begins so.
    """
    whole: dict[str, object] = dict(given)
    for argument, value in given.items():
        ids = {
            word: await _complete_id(connection, word, names)
            for word, names in find_names(parameters, {argument: value})
            if names.beginning is not None and re.fullmatch(names.beginning, word)
        }
        if isinstance(value, list):
            whole[argument] = [ids.get(word, word) for word in value]
        elif isinstance(value, str):
            whole[argument] = ids.get(value, value)
    return whole


async def _complete_id(connection: "ApiConnection", word: str, names: NameList) -> str:
    query = {**names.params, **connection.scope}
    found: list[str] = []
    for _ in range(_PAGES):
        response = await connection.send("GET", names.path, params=query)
        page = json.loads(response.content)
        found += [name for row in page[names.rows] for name in names.read_names(row) if name.startswith(word)]
        if page.get("next") is None:
            break
        query[names.cursor] = str(page["next"])
    if word in found or not found:
        return word  # the server says that there is none, or that it is older than the pages that were read
    if len(found) > 1:
        more = ", …" if len(found) > _SHOWN else ""
        problem = f"{len(found)} ids begin with {word!r}: {', '.join(found[:_SHOWN])}{more}"
        raise typer.BadParameter(f"{problem}; `{names.command}` shows them", param_hint="ID")
    return found[0]
