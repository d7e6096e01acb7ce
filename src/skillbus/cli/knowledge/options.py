"""Arguments and options that several commands about knowledge share."""

from typing import Annotated

import typer

from skillbus.cli.completion import complete_knowledge
from skillbus.contracts.learner.knowledge import KNOWN_TYPES, KnowledgeStatus


def read_item_id(given: str) -> str:
    """Return the id of an item that is given as a list shows it, or as a context cites it: `K-…`."""
    return given.removeprefix("K-")


Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Id of the item, or its beginning, as `knowledge list` shows it or a context cites it.",
        autocompletion=complete_knowledge,
        parser=read_item_id,
    ),
]


def complete_type(incomplete: str) -> list[str]:
    """Return the types of skillbus that begin with the text."""
    return [kind for kind in KNOWN_TYPES if kind.startswith(incomplete)]


Types = Annotated[
    list[str] | None,
    typer.Option("--type", help="Only items of this type. Repeatable.", autocompletion=complete_type),
]
Statuses = Annotated[
    list[KnowledgeStatus] | None,
    typer.Option("--status", help="Only items with this status. Default: active. Repeatable."),
]
AnyTags = Annotated[list[str] | None, typer.Option("--tag", help="Only items with one of these tags. Repeatable.")]
AllTags = Annotated[list[str] | None, typer.Option("--all-tags", help="Only items with all these tags. Repeatable.")]
Sources = Annotated[list[str] | None, typer.Option("--source", help="Only items of this source. Repeatable.")]
Scope = Annotated[
    str | None,
    typer.Option(
        "--scope", help="Place the query is about: items of this scope come first, other scopes are left out."
    ),
]
At = Annotated[str | None, typer.Option("--at", metavar="TIME", help="Only items valid at this time. Default: now.")]
Inherit = Annotated[bool, typer.Option("--inherit/--own", help="Also find the items of parent projects, or only own.")]
Scene = Annotated[str | None, typer.Option("--scene", help="Purpose of the query, for the statistics.")]
Record = Annotated[bool, typer.Option("--record/--no-record", help="Count this query in the statistics.")]
By = Annotated[
    str | None, typer.Option("--by", envvar="SKILLBUS_ACTOR", help="Your name, for the history and the audit log.")
]
Reason = Annotated[str | None, typer.Option("--reason", help="Reason, for the history and the audit log.")]
Expect = Annotated[
    int | None,
    typer.Option("--expect", min=1, metavar="VERSION", help="Refuse if the item is at another version."),
]
Version = Annotated[int | None, typer.Option("--version", min=1, help="Version of the item.")]


def build_headers(by: str | None, expected: int | None = None) -> dict[bytes, bytes]:
    """Build the headers that name the actor and the expected version; bytes, because an actor may be in UTF-8."""
    headers = {b"Skillbus-Actor": by.encode()} if by else {}
    return headers | ({b"If-Match": f'"{expected}"'.encode()} if expected is not None else {})


def build_filter(
    types: list[str] | None,
    tags: list[str] | None,
    all_tags: list[str] | None,
    sources: list[str] | None,
    scope: str | None,
    at: str | None,
    *,
    inherit: bool,
) -> dict[str, object]:
    """Return the fields of `KnowledgeFilter`. Absent options are None or left out."""
    lists: dict[str, object] = {"types": types, "tags": tags, "all_tags": all_tags, "sources": sources}
    given = {name: value for name, value in lists.items() if value}
    return given | {"scope": scope, "at": at, "inherit": None if inherit else False}
