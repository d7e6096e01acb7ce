"""Completion of names in the shell. The server is asked once and shortly, and every fault means no completion."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import closing, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

import typer

from skillbus.cli.client.http_api import KEYS, KNOWLEDGE, MCP_SERVERS, MODELS, PROVIDERS, RUNS, SKILLS, TOOLS
from skillbus.client.local_server import find_server

CompleteNames = Callable[[typer.Context, str], list[str]]
_TIMEOUT_S: Final = 0.5
_REPLY_BYTES: Final = 4 * 1024 * 1024
_PAGE: Final = {"limit": "200"}


def _build_completer(
    path: str,
    rows: str,
    read_names: Callable[[dict[str, str]], Iterable[str]],
    *,
    params: Mapping[str, str] | None = None,
    is_sorted: bool = False,
) -> CompleteNames:
    """Return a function that completes names from a list of the HTTP API.

    Args:
        path: Path of the list.
        rows: Name of its rows in the reply.
        read_names: Returns the names of a row.
        params: Parameters of the request.
        is_sorted: True if the rows are sorted by name, so that the list can begin where the word does.
    """

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from http.client import HTTPException  # noqa: PLC0415 (help pages do not need it)

        query = {**(params or {}), **({"after": incomplete} if is_sorted and incomplete else {})}
        try:
            found = _request_rows(ctx, path, query, rows)
            names = [name for row in found for name in read_names(row) if name.startswith(incomplete)]
        except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError):
            return []
        return list(dict.fromkeys(names))

    return complete


complete_skill = _build_completer(SKILLS, "skills", lambda row: [row["name"]], params=_PAGE, is_sorted=True)
complete_tool = _build_completer(TOOLS, "tools", lambda row: [row["id"]], params=_PAGE, is_sorted=True)
complete_mcp_server = _build_completer(MCP_SERVERS, "servers", lambda row: [row["name"]])
complete_model = _build_completer(MODELS, "models", lambda row: [row["name"], f"{row['provider']}/{row['name']}"])
complete_chat_model = _build_completer(
    MODELS,
    "models",
    lambda row: [row["name"], f"{row['provider']}/{row['name']}"] if row["kind"] == "chat" else [],
)
complete_provider = _build_completer(PROVIDERS, "providers", lambda row: [row["name"]])
complete_knowledge = _build_completer(KNOWLEDGE, "items", lambda row: [row["id"]], params=_PAGE)
complete_pending = _build_completer(KNOWLEDGE, "items", lambda row: [row["id"]], params=_PAGE | {"status": "pending"})
complete_run = _build_completer(RUNS, "runs", lambda row: [row["run_id"]], params=_PAGE)
complete_key = _build_completer(KEYS, "keys", lambda row: [row["id"]])


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
