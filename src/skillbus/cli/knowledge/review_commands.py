"""`skillbus knowledge proposals`, `proposal` and `review`: proposals of learning, decisions about pending items."""

from typing import Annotated, Final

import typer

from skillbus.cli.client.http_api import KNOWLEDGE
from skillbus.cli.completion import complete_pending
from skillbus.cli.errors import NotReviewedError
from skillbus.cli.knowledge import review_view, view
from skillbus.cli.knowledge.options import By, Id, Reason, build_headers, read_item_id
from skillbus.cli.options import build_request
from skillbus.cli.output import format_number
from skillbus.cli.session import Session, remote_command
from skillbus.client.call import join_path
from skillbus.contracts.learner.proposals import ProposalKind, ProposalsListed, WaitingProposal
from skillbus.contracts.learner.versions import KnowledgeReviewed, ReviewAction, ReviewKnowledge

Decision = Annotated[
    ReviewAction,
    typer.Argument(metavar="ACTION", help=f"Decision on the items: {', '.join(ReviewAction)}.", show_choices=False),
]
Ids = Annotated[
    list[str],
    typer.Argument(metavar="ID...", help="Pending items.", autocompletion=complete_pending, parser=read_item_id),
]
Other = Annotated[
    str | None,
    typer.Option(
        "--other", metavar="ID", help="Known item to merge into or to supersede. Default: the one of the proposal."
    ),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="End of a snooze: 2026-03-01T12:00:00Z.")]
NewTitle = Annotated[str | None, typer.Option("--title", help="Another title, decided with the item.")]
NewContent = Annotated[str | None, typer.Option("--content", help="Another content, decided with the item.")]
NewScope = Annotated[str | None, typer.Option("--scope", help="Another scope, decided with the item.")]
OfJob = Annotated[str | None, typer.Option("--job", metavar="ID", help="Only proposals of this job.")]
OfKind = Annotated[ProposalKind | None, typer.Option("--kind", help="Only proposals of this kind.")]
Snoozed = Annotated[bool, typer.Option("--snoozed", help="List the snoozed ones instead.")]
Limit = Annotated[int, typer.Option(min=1, help="Largest number of rows.")]

_PAGE_SIZE: Final = 100


@remote_command("skillbus knowledge proposals --kind conflict")
async def list_proposals(
    session: Session, job: OfJob = None, kind: OfKind = None, snoozed: Snoozed = False, limit: Limit = 50
) -> None:
    """List the learned items that wait for review, newest first."""
    filters: dict[str, str | list[str]] = {"snoozed": "true"} if snoozed else {}
    filters |= {name: value for name, value in (("job", job), ("kind", kind and kind.value)) if value}
    found, page = await session.connection.list_rows(
        ProposalsListed,
        f"{KNOWLEDGE}/proposals",
        filters,
        lambda page: (page.proposals, page.next),
        page_size=_PAGE_SIZE,
        limit=limit,
    )
    document = {"proposals": [one.model_dump(mode="json") for one in found], "total": page.total}
    session.output.show_result(
        document, lambda: review_view.render_proposals(found, page.total, is_filtered=bool(filters))
    )


@remote_command("skillbus knowledge proposal 01890000-0000-7000-8000-000000000000")
async def show_proposal(session: Session, item: Id) -> None:
    """Show a learned item with its evidence, and the item that it would change."""
    path, params = join_path(KNOWLEDGE, item, "proposal"), session.connection.scope
    found = await session.connection.request(WaitingProposal, "GET", path, params=params)
    session.output.show_result(found, lambda: review_view.render_proposal(found))


@remote_command("skillbus knowledge review approve live-headers order-limits")
async def review_items(  # noqa: PLR0913 (one parameter for each option)
    session: Session,
    action: Decision,
    items: Ids,
    *,
    other: Other = None,
    until: Until = None,
    title: NewTitle = None,
    content: NewContent = None,
    scope: NewScope = None,
    reason: Reason = None,
    by: By = None,
) -> None:
    """Approve, reject, merge, supersede or snooze pending items.

    Exits with 1 if any could not be reviewed; the others are.
    """
    if (action is ReviewAction.SNOOZE) != (until is not None):
        raise typer.BadParameter("`snooze` needs it, and no other decision has it", param_hint="--until")
    edits = {"title": title, "content": content, "scope": scope}
    changes = {name: value for name, value in edits.items() if value is not None}
    fields = {"ids": list(dict.fromkeys(items)), "action": action, "reason": reason, "other": other, "until": until}
    request = build_request(ReviewKnowledge, fields | {"changes": changes or None})
    body = request.model_dump(mode="json", exclude_unset=True) | session.connection.scope
    path, headers = f"{KNOWLEDGE}/review", build_headers(by)
    found = await session.connection.request(KnowledgeReviewed, "POST", path, json=body, headers=headers)
    session.output.show_result(found, lambda: view.render_reviewed(found))
    if found.failed:
        advice = "`skillbus knowledge list --status pending` shows the pending items."
        session.fail(
            NotReviewedError(f"not reviewed: {found.failed} of {format_number(len(found.results), 'item')}", advice)
        )
