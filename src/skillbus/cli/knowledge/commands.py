"""`skillbus knowledge`: what is there, its versions, and what people make of it."""

from enum import StrEnum
from typing import Annotated

import typer

from skillbus.cli.errors import NotReviewedError
from skillbus.cli.knowledge import view as knowledge_tables
from skillbus.cli.knowledge.options import (
    OPTIONS,
    AllTags,
    AnyTags,
    By,
    Expect,
    Id,
    Kinds,
    Reason,
    Statuses,
    Version,
)
from skillbus.cli.session import Session
from skillbus.cli.text import plain, plain_line


class Action(StrEnum):
    """As `skillbus.contracts.knowledge_versions.ReviewAction`, which is slow to import; a test compares the two."""

    APPROVE = "approve"
    REJECT = "reject"


ExactScope = Annotated[str | None, typer.Option("--scope", help='Only items of exactly this one; "" for general ones.')]
Source = Annotated[str | None, typer.Option("--source", help="Only items from there.")]
Owner = Annotated[str | None, typer.Option("--owner", help="Only items of this owner.")]
TextIn = Annotated[str | None, typer.Option("--text", help="Only items with all these words in title or content.")]
Limit = Annotated[int, typer.Option(min=1, help="How many at most.")]
AsOf = Annotated[str | None, typer.Option("--as-of", metavar="TIME", help="As it was then: 2026-03-01T12:00:00Z.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print it as Markdown with front matter.")]
From = Annotated[int, typer.Argument(metavar="FROM", min=1, help="The earlier version.")]
To = Annotated[int, typer.Argument(metavar="TO", min=1, help="The later version.")]
Decision = Annotated[Action, typer.Argument(metavar="approve|reject", help="What becomes of them.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Items that wait to be reviewed.")]
Helpful = Annotated[bool, typer.Option("--helpful/--unhelpful", help="Whether it helped.", show_default=False)]
OfQuery = Annotated[str, typer.Option("--query", help="With what; each of you has one voice a query.")]
Comment = Annotated[str, typer.Option("--comment", help="What you have to say.")]
RequestId = Annotated[str, typer.Option("--request", metavar="ID", help="Of the search or the context, if known.")]
StaleAfter = Annotated[int, typer.Option("--stale-after", metavar="DAYS", help="Neither changed nor helpful so long.")]
ReportLimit = Annotated[int, typer.Option("--limit", help="How many items of each report.")]
Parent = Annotated[str | None, typer.Option("--parent", help="Find the items of this project too.")]
NoParent = Annotated[bool, typer.Option("--no-parent", help="Find its own items only.")]


async def list_items(  # noqa: PLR0913 (one parameter an option)
    session: Session,
    *,
    kinds: Kinds = None,
    statuses: Statuses = None,
    tags: AnyTags = None,
    all_tags: AllTags = None,
    scope: ExactScope = None,
    source: Source = None,
    owner: Owner = None,
    text: TextIn = None,
    limit: Limit = 50,
) -> None:
    """List items, newest change first: active ones, unless --status says otherwise."""
    single = {"scope": scope, "source": source, "owner": owner, "text": text}
    many = {"type": kinds, "status": statuses, "tags": tags, "all_tags": all_tags}
    only: dict[str, str | list[str]] = {name: value for name, value in single.items() if value is not None}
    only |= {name: [str(value) for value in values] for name, values in many.items() if values}
    found, total = await session.knowledge.items(only, limit)
    document = {"items": [item.model_dump(mode="json") for item in found], "total": total}
    session.output.show(document, lambda: knowledge_tables.items(found, total))


async def show(
    session: Session, item: Id, version: Version = None, as_of: AsOf = None, markdown: Markdown = False
) -> None:
    """Show an item, as it is, at a version, or as it was at a time."""
    if version is not None and as_of is not None:
        raise typer.BadParameter("say --version or --as-of, not both", param_hint="--as-of")
    if markdown and session.output.as_json:
        raise typer.BadParameter("Markdown is no JSON: say --markdown or --json", param_hint="--markdown")
    when = ({"version": str(version)} if version is not None else {}) | ({"as_of": as_of} if as_of else {})
    if markdown:
        text = await session.knowledge.markdown(item, when)
        session.output.write(plain(text) if session.output.out.is_terminal else text)
        return
    found = await session.knowledge.item(item, when)
    session.output.show(found, lambda: knowledge_tables.item(found))


async def archive(session: Session, item: Id, reason: Reason = None, expect: Expect = None, by: By = None) -> None:
    """Have an item found no more. It is kept with its history: `skillbus knowledge restore` brings it back."""
    await session.knowledge.acting(by).archive(item, expect, reason)
    session.output.show({"id": item, "outcome": "archived"}, lambda: plain_line(f"{item}: archived"))


async def restore(
    session: Session, item: Id, version: Version = None, reason: Reason = None, expect: Expect = None, by: By = None
) -> None:
    """Take an item out of the archive; or, with --version, make it again as it was then, as a new version."""
    body: dict[str, object] = {"version": version} if version is not None else {}
    body |= {"reason": reason} if reason else {}
    written = await session.knowledge.acting(by).restore(item, body, expect)
    session.output.show(written, lambda: knowledge_tables.written(written))


async def history(session: Session, item: Id, limit: Limit = 50) -> None:
    """Show the versions of an item, newest first: who made each, when, how and why. --json has each whole."""
    found, total = await session.knowledge.history(item, limit)
    document: dict[str, object] = {"id": item, "versions": [it.model_dump(mode="json") for it in found]}
    session.output.show(document | {"total": total}, lambda: knowledge_tables.versions(found, total))


async def diff(session: Session, item: Id, from_version: From, to_version: To) -> None:
    """Show what differs between two versions of an item, in its texts word by word."""
    found = await session.knowledge.diff(item, from_version, to_version)
    out = session.output.out
    coloured = out.is_terminal and not out.no_color
    session.output.show(found, lambda: knowledge_tables.diff(found, coloured=coloured))


async def review(session: Session, action: Decision, items: Ids, reason: Reason = None, by: By = None) -> None:
    """Approve or reject items that wait for it. Exits with 1 when any could not be; the others are."""
    from skillbus.cli.request_fields import request_of  # noqa: PLC0415 (slow)
    from skillbus.contracts.learner.versions import ReviewKnowledge  # noqa: PLC0415 (slow)

    wanted = {"ids": list(dict.fromkeys(items)), "action": action.value, "reason": reason}
    asked = request_of(ReviewKnowledge, wanted, OPTIONS)
    found = await session.knowledge.acting(by).review(asked.model_dump(mode="json", exclude_unset=True))
    session.output.show(found, lambda: knowledge_tables.reviewed(found))
    if found.failed:
        if not session.output.as_json:
            advice = "`skillbus knowledge list --status pending` shows what waits."
            session.output.fail(NotReviewedError(f"{found.failed} of {len(found.results)} were not", advice))
        raise typer.Exit(NotReviewedError.exit_code)


async def feedback(
    session: Session,
    item: Id,
    helpful: Helpful,
    query: OfQuery = "",
    comment: Comment = "",
    request: RequestId = "",
    by: By = None,
) -> None:
    """Say whether an item helped. The last word of each of you about each query counts."""
    said: dict[str, object] = {"helpful": helpful}
    said |= {name: value for name, value in (("query", query), ("comment", comment), ("request_id", request)) if value}
    found = await session.knowledge.acting(by).feedback(item, said)
    session.output.show(found, lambda: knowledge_tables.usage(found))


async def usage(session: Session, item: Id) -> None:
    """Show how an item is used, and what people say of it."""
    found = await session.knowledge.usage(item)
    session.output.show(found, lambda: knowledge_tables.usage(found))


async def stats(session: Session, stale_after: StaleAfter = 90, limit: ReportLimit = 20) -> None:
    """Show the knowledge base in numbers: what is used, never used, stale, and what was asked in vain."""
    from skillbus.cli.request_fields import request_of  # noqa: PLC0415 (slow)
    from skillbus.contracts.learner.usage import GetKnowledgeStats  # noqa: PLC0415 (slow)

    asked = request_of(GetKnowledgeStats, {"stale_after_days": stale_after, "limit": limit}, OPTIONS)
    where = {"stale_after_days": str(asked.stale_after_days), "limit": str(asked.limit)}
    found = await session.knowledge.stats(where)
    session.output.show(found, lambda: knowledge_tables.stats(found))


async def project(session: Session, parent: Parent = None, no_parent: NoParent = False, by: By = None) -> None:
    """Show whose items the --project finds beside its own, or change it."""
    if parent is not None and no_parent:
        raise typer.BadParameter("say --parent or --no-parent, not both", param_hint="--no-parent")
    client = session.knowledge.acting(by)
    found = await (client.set_parent(parent) if parent is not None or no_parent else client.parents())
    session.output.show(found, lambda: knowledge_tables.project(found))
