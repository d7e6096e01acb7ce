"""Options that several commands about knowledge have."""

from enum import StrEnum
from typing import Annotated, Final

import typer


class Kind(StrEnum):
    """As `skillbus.contracts.knowledge.KnowledgeType`, which is slow to import; a test compares the two."""

    PROJECT_CONFIG = "project_config"
    BUSINESS_RULE = "business_rule"
    MODULE_CONTEXT = "module_context"
    TEST_EXPERIENCE = "test_experience"


class Status(StrEnum):
    """As `skillbus.contracts.knowledge.KnowledgeStatus`; a test compares the two."""

    ACTIVE = "active"
    PENDING = "pending"
    ARCHIVED = "archived"


Id = Annotated[str, typer.Argument(metavar="ID", help="The item's id, as `skillbus knowledge list` shows it.")]
Kinds = Annotated[list[Kind] | None, typer.Option("--type", help="Only this; repeatable.")]
Statuses = Annotated[list[Status] | None, typer.Option("--status", help="Only this; active if absent; repeatable.")]
AnyTags = Annotated[list[str] | None, typer.Option("--tag", help="Only items that have one of these; repeatable.")]
AllTags = Annotated[list[str] | None, typer.Option("--all-tags", help="Only items that have this too; repeatable.")]
Scope = Annotated[
    str | None, typer.Option("--scope", help="What is asked about: its items first, those of other scopes not at all.")
]
At = Annotated[str | None, typer.Option("--at", metavar="TIME", help="Only items that are valid then; now if absent.")]
Inherit = Annotated[bool, typer.Option("--inherit/--own", help="Whether items of the projects above count too.")]
Threshold = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Leave out items that score less; the server's own if absent, 0 for the nearest."),
]
Record = Annotated[bool, typer.Option("--record/--no-record", help="Whether the statistics count it.")]
By = Annotated[
    str | None, typer.Option("--by", envvar="SKILLBUS_ACTOR", help="Who does it, for the history and the audit.")
]
Reason = Annotated[str | None, typer.Option("--reason", help="Why, for the history and the audit.")]
Expect = Annotated[
    int | None, typer.Option("--expect", min=1, metavar="VERSION", help="Refuse it if the item is at another version.")
]
Version = Annotated[int | None, typer.Option("--version", min=1, help="Which version.")]

OPTIONS: Final = {
    "query": "QUERY",
    "types": "--type",
    "tags": "--tag",
    "sources": "--source",
    "ids": "ID",
    "budget_tokens": "--budget",
    "stale_after_days": "--stale-after",
}
"""What the option of a field is called, where not like the field."""


def filters(
    kinds: list[Kind] | None,
    tags: list[str] | None,
    all_tags: list[str] | None,
    sources: list[str] | None,
    scope: str | None,
    at: str | None,
    *,
    inherit: bool,
) -> dict[str, object]:
    """The fields of `KnowledgeFilter`; what was not said is absent."""
    said: dict[str, object] = {"types": kinds, "tags": tags, "all_tags": all_tags, "sources": sources}
    given = {name: value for name, value in said.items() if value}
    return given | {"scope": scope, "at": at, "inherit": None if inherit else False}
