"""Names of things on the server: completed in the shell, and suggested for a misspelt one.

For a completion the server is asked once and shortly, and every fault means no completion.
"""

import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import closing, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

import typer

from skillbus.cli.client.http_api import (
    COMMANDS,
    DEVICES,
    HOMES,
    KEYS,
    KNOWLEDGE,
    LEARNING_JOBS,
    MCP_SERVERS,
    MODELS,
    PROVIDERS,
    RUNS,
    SKILLS,
    TOOLS,
)
from skillbus.client.local_server import find_server

CompleteNames = Callable[[typer.Context, str], list[str]]
_TIMEOUT_S: Final = 0.5
_REPLY_BYTES: Final = 4 * 1024 * 1024
_PAGE: Final = {"limit": "200"}
_PENDING: Final = {"status": "pending"}


@dataclass(frozen=True, slots=True)
class NameList:
    """List of the HTTP API that has the names of one kind of things."""

    command: str
    """Command that lists them."""
    path: str
    rows: str
    """Name of the rows in the reply."""
    read_names: Callable[[dict[str, str]], Iterable[str]]
    """Returns the names of a row."""
    params: Mapping[str, str] = field(default_factory=dict)
    is_sorted: bool = False
    """True if the rows are sorted by name, so that a list can begin after a name."""
    beginning: str | None = None
    """Pattern of a beginning that is enough, if the names are ids that the server made."""
    cursor: str = "after"
    """Parameter of the list that takes the position of the next page."""


_LISTS: dict[object, NameList] = {}


def find_names(
    parameters: Mapping[str, inspect.Parameter], given: Mapping[str, object]
) -> Iterator[tuple[str, NameList]]:
    """Yield the arguments of a command that the shell completes from a list, with this list."""
    for name, value in given.items():
        for option in getattr(parameters[name].annotation, "__metadata__", ()):
            names = _LISTS.get(getattr(option, "autocompletion", None))
            if names is not None and value is not None:
                yield from ((str(one), names) for one in (value if isinstance(value, list) else [value]))


def _build_completer(names: NameList) -> CompleteNames:
    """Return a function that completes names from a list."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from http.client import HTTPException  # noqa: PLC0415 (help pages do not need it)

        query = {**names.params, **({"after": incomplete} if names.is_sorted and incomplete else {})}
        try:
            found = _request_rows(ctx, names.path, query, names.rows)
            fitting = [name for row in found for name in names.read_names(row) if name.startswith(incomplete)]
        except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError):
            return []
        return list(dict.fromkeys(fitting))

    _LISTS[complete] = names
    return complete


def _read_model(row: dict[str, str]) -> Iterable[str]:
    return row["name"], f"{row['provider']}/{row['name']}"


def _read_id(row: dict[str, str]) -> Iterable[str]:
    return [row["id"]]


_UUID_BEGINNING: Final = r"[0-9a-f]{4,8}|[0-9a-f]{8}-[0-9a-f-]{0,26}"
"""At least four characters: one slip of a finger must not choose what is removed."""
_MODELS_COMMAND: Final = "skillbus models list"
_KNOWLEDGE_COMMAND: Final = "skillbus knowledge list"

complete_skill = _build_completer(
    NameList("skillbus skills list", SKILLS, "skills", lambda row: [row["name"]], _PAGE, is_sorted=True)
)
complete_tool = _build_completer(NameList("skillbus tools list", TOOLS, "tools", _read_id, _PAGE, is_sorted=True))
complete_mcp_server = _build_completer(NameList("skillbus mcp list", MCP_SERVERS, "servers", lambda row: [row["name"]]))
complete_model = _build_completer(NameList(_MODELS_COMMAND, MODELS, "models", _read_model))
complete_chat_model = _build_completer(
    NameList(_MODELS_COMMAND, MODELS, "models", lambda row: _read_model(row) if row["kind"] == "chat" else [])
)
complete_provider = _build_completer(
    NameList("skillbus providers list", PROVIDERS, "providers", lambda row: [row["name"]])
)
complete_knowledge = _build_completer(
    NameList(_KNOWLEDGE_COMMAND, KNOWLEDGE, "items", _read_id, _PAGE, beginning=_UUID_BEGINNING, cursor="before")
)
complete_pending = _build_completer(
    NameList(
        f"{_KNOWLEDGE_COMMAND} --status pending",
        KNOWLEDGE,
        "items",
        _read_id,
        _PAGE | _PENDING,
        beginning=_UUID_BEGINNING,
        cursor="before",
    )
)
complete_job = _build_completer(
    NameList("skillbus learn jobs", LEARNING_JOBS, "jobs", _read_id, _PAGE, beginning=_UUID_BEGINNING)
)
complete_home = _build_completer(NameList("skillbus homes list", HOMES, "homes", lambda row: [row["home"]]))
complete_device = _build_completer(NameList("skillbus devices list", DEVICES, "devices", _read_id, _PAGE))
complete_command = _build_completer(
    NameList("skillbus commands list", COMMANDS, "commands", _read_id, _PAGE, is_sorted=True)
)
complete_run = _build_completer(
    NameList("skillbus runs list", RUNS, "runs", lambda row: [row["run_id"]], _PAGE, beginning="[0-9a-f]{4,31}")
)
complete_key = _build_completer(NameList("skillbus keys list", KEYS, "keys", _read_id, beginning="[0-9a-z]{4,9}"))


def complete_in_bash(app: Callable[[], None], variables: MutableMapping[str, str]) -> None:
    """Run the app to complete a line of bash, which parts words at colons, as in `mcp:files/read`.

    The words are joined before, and the text up to the last colon, which bash keeps, is cut from the answers.
    """
    cut = _join_words(variables)
    answers = StringIO()
    try:
        with redirect_stdout(answers):
            app()
    finally:
        sys.stdout.write("".join(f"{line[cut:]}\n" for line in answers.getvalue().splitlines()))


def _join_words(variables: MutableMapping[str, str]) -> int:
    """Join words that bash has parted, and return the length of the current word up to its last colon."""
    words, at = variables.get("COMP_WORDS", "").split("\n"), int(variables.get("COMP_CWORD", "0"))
    joined: list[str] = []
    places: list[int] = []
    for word in words:
        if joined and (word.startswith(":") or joined[-1].endswith(":")):
            joined[-1] += word
        else:
            joined.append(word)
        places.append(len(joined) - 1)
    if at >= len(places):
        return 0
    variables.update(COMP_WORDS="\n".join(joined), COMP_CWORD=str(places[at]))
    return joined[places[at]].rfind(":") + 1


def _request_rows(ctx: typer.Context, path: str, params: dict[str, str], rows: str) -> Iterator[dict[str, str]]:
    from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415 (as above)

    given = ctx.params
    data = given.get("data")
    server = find_server(given.get("url"), given.get("key"), Path(data) if data else None)
    parts = urlsplit(server.url)
    params |= {"project": given["project"]} if given.get("project") else {}
    headers = {"Authorization": f"Bearer {server.key}"} if server.key else {}
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    with closing(connect(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)) as connection:
        connection.request("GET", f"{parts.path.rstrip('/')}{path}?{urlencode(params)}", headers=headers)
        found = json.loads(connection.getresponse().read(_REPLY_BYTES))[rows]
    yield from found
