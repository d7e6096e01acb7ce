"""`skillbus knowledge`: items, versions, reviews, usage and projects. Writing and searching have their own modules."""

from typing import Annotated, Final

import typer

from skillbus.cli.client.http_api import KNOWLEDGE
from skillbus.cli.knowledge import view
from skillbus.cli.knowledge.options import (
    AllTags,
    AnyTags,
    By,
    Expect,
    Id,
    Reason,
    Statuses,
    Types,
    Version,
    build_headers,
)
from skillbus.cli.options import build_request
from skillbus.cli.output import clean_line, clean_text
from skillbus.cli.session import Session, remote_command
from skillbus.client.call import join_path
from skillbus.contracts.learner.items import KnowledgeListed, KnowledgeWritten
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.learner.projects import KnowledgeProject
from skillbus.contracts.learner.usage import GetKnowledgeStats, ItemUsage, KnowledgeStats
from skillbus.contracts.learner.versions import (
    KnowledgeDiffed,
    KnowledgeVersionsListed,
)
from skillbus.contracts.message import DEFAULT_PROJECT

ExactScope = Annotated[
    str | None, typer.Option("--scope", help='Only items of exactly this scope; "" for general items.')
]
Source = Annotated[str | None, typer.Option("--source", help="Only items of this source.")]
Owner = Annotated[str | None, typer.Option("--owner", help="Only items of this owner.")]
TextIn = Annotated[str | None, typer.Option("--text", help="Only items with all these words in title or content.")]
Limit = Annotated[int, typer.Option(min=1, help="Largest number of rows.")]
AsOf = Annotated[str | None, typer.Option("--as-of", metavar="TIME", help="State at this time: 2026-03-01T12:00:00Z.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print it as Markdown with front matter.")]
From = Annotated[int, typer.Argument(metavar="FROM", min=1, help="Earlier version.")]
To = Annotated[int, typer.Argument(metavar="TO", min=1, help="Later version.")]
Helpful = Annotated[bool, typer.Option("--helpful/--unhelpful", help="Your rating of the item.", show_default=False)]
RatedQuery = Annotated[str, typer.Option("--query", help="Query the item was found with; it has one rating from you.")]
Comment = Annotated[str, typer.Option("--comment", help="Your remark.")]
RequestId = Annotated[str, typer.Option("--request", metavar="ID", help="Id of the search or context, if known.")]
StaleAfter = Annotated[
    int, typer.Option("--stale-after", metavar="DAYS", help="Days without a change or a good rating.")
]
ReportLimit = Annotated[int, typer.Option("--limit", help="Largest number of items of each report.")]
Parent = Annotated[str | None, typer.Option("--parent", help="Also find the items of this project.")]
NoParent = Annotated[bool, typer.Option("--no-parent", help="Find only own items.")]

_PAGE_SIZE: Final = 200


@remote_command("skillbus knowledge list --type business_rule --status pending")
async def list_items(  # noqa: PLR0913 (one parameter for each option)
    session: Session,
    *,
    types: Types = None,
    statuses: Statuses = None,
    tags: AnyTags = None,
    all_tags: AllTags = None,
    scope: ExactScope = None,
    source: Source = None,
    owner: Owner = None,
    text: TextIn = None,
    limit: Limit = 50,
) -> None:
    """List items, newest change first."""
    single = {"scope": scope, "source": source, "owner": owner, "text": text}
    many = {"type": types, "status": statuses, "tags": tags, "all_tags": all_tags}
    filters: dict[str, str | list[str]] = {name: value for name, value in single.items() if value is not None}
    filters |= {name: list(map(str, values)) for name, values in many.items() if values}
    found, page = await session.connection.list_rows(
        KnowledgeListed, KNOWLEDGE, filters, lambda page: (page.items, page.next), page_size=_PAGE_SIZE, limit=limit
    )
    document = {"items": [item.model_dump(mode="json") for item in found], "total": page.total}
    session.output.show_result(document, lambda: view.render_items(found, page.total, session.output.out.width))


@remote_command("skillbus knowledge show live-headers --version 2")
async def show_item(
    session: Session, item: Id, version: Version = None, as_of: AsOf = None, markdown: Markdown = False
) -> None:
    """Show an item: its current state, a version of it, or its state at a time."""
    if version is not None and as_of is not None:
        raise typer.BadParameter("give --version or --as-of, not both", param_hint="--as-of")
    if markdown and session.output.as_json:
        raise typer.BadParameter("give --markdown or --json, not both", param_hint="--markdown")
    path, params = join_path(KNOWLEDGE, item), session.connection.scope
    params |= ({"version": str(version)} if version is not None else {}) | ({"as_of": as_of} if as_of else {})
    if markdown:
        response = await session.connection.send("GET", path, params=params, headers={"Accept": "text/markdown"})
        text = response.content.decode("utf-8", errors="replace")
        session.output.write_text(clean_text(text) if session.output.out.is_terminal else text)
        return
    found = await session.connection.request(KnowledgeItem, "GET", path, params=params)
    session.output.show_result(found, lambda: view.render_item(found))


@remote_command("skillbus knowledge archive live-headers --reason 'replaced by v2'")
async def archive_item(session: Session, item: Id, reason: Reason = None, expect: Expect = None, by: By = None) -> None:
    """Archive an item: searches do not find it any more.

    It is kept with its history, and `skillbus knowledge restore` brings it back.
    """
    params = session.connection.scope | ({"reason": reason} if reason else {})
    await session.connection.send(
        "DELETE", join_path(KNOWLEDGE, item), params=params, headers=build_headers(by, expect)
    )
    session.output.show_result({"id": item, "outcome": "archived"}, lambda: clean_line(f"{item}: archived"))


@remote_command("skillbus knowledge restore live-headers --version 3")
async def restore_item(
    session: Session, item: Id, version: Version = None, reason: Reason = None, expect: Expect = None, by: By = None
) -> None:
    """Restore an archived item; with --version, write the state of that version as a new version."""
    body: dict[str, object] = {"version": version} if version is not None else {}
    body |= {"reason": reason} if reason else {}
    path, params, headers = join_path(KNOWLEDGE, item, "restore"), session.connection.scope, build_headers(by, expect)
    written = await session.connection.request(
        KnowledgeWritten, "POST", path, params=params, json=body, headers=headers
    )
    session.output.show_result(written, lambda: view.format_written(written))


@remote_command("skillbus knowledge history live-headers")
async def list_versions(session: Session, item: Id, limit: Limit = 50) -> None:
    """List the versions of an item, newest first, with time, author, change and reason.

    --json has the content of each version.
    """
    found, page = await session.connection.list_rows(
        KnowledgeVersionsListed,
        join_path(KNOWLEDGE, item, "history"),
        {},
        lambda page: (page.versions, page.next),
        page_size=_PAGE_SIZE,
        limit=limit,
        cursor="before",
    )
    document = {"id": item, "versions": [it.model_dump(mode="json") for it in found], "total": page.total}
    session.output.show_result(document, lambda: view.render_versions(found, page.total))


@remote_command("skillbus knowledge diff live-headers 1 2")
async def compare_versions(session: Session, item: Id, from_version: From, to_version: To) -> None:
    """Show the differences between two versions of an item, in texts word by word."""
    params = {"from": str(from_version), "to": str(to_version)} | session.connection.scope
    found = await session.connection.request(KnowledgeDiffed, "GET", join_path(KNOWLEDGE, item, "diff"), params=params)
    out = session.output.out
    coloured = out.is_terminal and not out.no_color
    session.output.show_result(found, lambda: view.render_diff(found, coloured=coloured))


@remote_command("skillbus knowledge feedback live-headers --helpful --query 'headers of the live API'")
async def rate_item(
    session: Session,
    item: Id,
    helpful: Helpful,
    query: RatedQuery = "",
    comment: Comment = "",
    request: RequestId = "",
    by: By = None,
) -> None:
    """Record whether an item helped.

    Your last rating for each query counts.
    """
    texts = {"query": query, "comment": comment, "request_id": request}
    body: dict[str, object] = {"helpful": helpful} | {name: value for name, value in texts.items() if value}
    path, params, headers = join_path(KNOWLEDGE, item, "feedback"), session.connection.scope, build_headers(by)
    found = await session.connection.request(ItemUsage, "POST", path, params=params, json=body, headers=headers)
    session.output.show_result(found, lambda: view.render_usage(found))


@remote_command("skillbus knowledge usage live-headers")
async def show_usage(session: Session, item: Id) -> None:
    """Show how often an item is shown and applied, and how it is rated."""
    path, params = join_path(KNOWLEDGE, item, "usage"), session.connection.scope
    found = await session.connection.request(ItemUsage, "GET", path, params=params)
    session.output.show_result(found, lambda: view.render_usage(found))


@remote_command("skillbus knowledge stats --stale-after 30")
async def show_stats(session: Session, stale_after: StaleAfter = 90, limit: ReportLimit = 20) -> None:
    """Show counts of the knowledge base, its most used, unused and stale items, and queries without hits."""
    asked = build_request(GetKnowledgeStats, {"stale_after_days": stale_after, "limit": limit})
    params = {"stale_after_days": str(asked.stale_after_days), "limit": str(asked.limit)} | session.connection.scope
    found = await session.connection.request(KnowledgeStats, "GET", f"{KNOWLEDGE}/stats", params=params)
    session.output.show_result(found, lambda: view.render_stats(found))


@remote_command("skillbus knowledge project --project shop --parent company")
async def manage_parents(session: Session, parent: Parent = None, no_parent: NoParent = False, by: By = None) -> None:
    """Show the parent projects of the --project, which it inherits items from, or set its parent."""
    if parent is not None and no_parent:
        raise typer.BadParameter("give --parent or --no-parent, not both", param_hint="--no-parent")
    path = join_path(KNOWLEDGE, "projects", session.connection.project or DEFAULT_PROJECT)
    if parent is not None or no_parent:
        body, headers = {"parent": parent}, build_headers(by)
        found = await session.connection.request(KnowledgeProject, "PUT", path, json=body, headers=headers)
    else:
        found = await session.connection.request(KnowledgeProject, "GET", path)
    session.output.show_result(found, lambda: view.format_project(found))
