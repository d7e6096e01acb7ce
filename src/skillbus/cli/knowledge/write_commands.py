"""`skillbus knowledge add` and `skillbus knowledge update`."""

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from skillbus.cli.client.http_api import IMPORT_S, KNOWLEDGE
from skillbus.cli.errors import NotImportedError
from skillbus.cli.input_files import decode_text, read_input
from skillbus.cli.knowledge.options import By, Expect, Id, Reason, build_headers, complete_type
from skillbus.cli.knowledge.view import format_written
from skillbus.cli.near_names import find_near_names, format_question
from skillbus.cli.options import build_request
from skillbus.cli.session import Session, remote_command
from skillbus.client.call import join_path
from skillbus.contracts.learner.bulk import KnowledgePutOutcome
from skillbus.contracts.learner.items import CreateKnowledge, KnowledgeChanges, KnowledgeWritten
from skillbus.contracts.learner.knowledge import KNOWN_TYPES, NOTE, KnowledgeItem

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection
    from skillbus.contracts.http import KnowledgeImported


class ClearableField(StrEnum):
    """Optional field of an item that no empty text can clear."""

    VALID_FROM = "valid-from"
    VALID_TO = "valid-to"
    EXTERNAL_ID = "external-id"


File = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help="Markdown with front matter; - for stdin.", show_default=False),
]
Type = Annotated[
    str | None,
    typer.Option(
        "--type",
        help=f"Type of the item: {', '.join(KNOWN_TYPES)}, or a name of your own. Default: {NOTE}.",
        autocompletion=complete_type,
    ),
]
Title = Annotated[str | None, typer.Option("--title", help="Title, one line.")]
Content = Annotated[str | None, typer.Option("--content", metavar="MARKDOWN", help="Content.")]
ContentFrom = Annotated[
    str | None, typer.Option("--content-from", metavar="FILE", help="File with the content; - for stdin.")
]
Scope = Annotated[
    str | None, typer.Option("--scope", help='Place it applies to: /api/live/*, module:name, "" for all.')
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help='All tags of the item. Repeatable; "" for none.')]
Priority = Annotated[int | None, typer.Option("--priority", min=0, max=10, help="Priority; 10 is the highest.")]
Source = Annotated[str | None, typer.Option("--source", help="Source of the item.")]
SourceRef = Annotated[str | None, typer.Option("--source-ref", help="Place in the source: a task's id, a file.")]
Owner = Annotated[str | None, typer.Option("--owner", help="Owner of the item.")]
Lang = Annotated[str | None, typer.Option("--lang", help="Language of the item: zh, en.")]
ValidFrom = Annotated[str | None, typer.Option("--valid-from", metavar="TIME", help="Not found before this time.")]
ValidTo = Annotated[str | None, typer.Option("--valid-to", metavar="TIME", help="Not found from this time on.")]
ExternalId = Annotated[
    str | None, typer.Option("--external-id", help="Id of the item elsewhere, unique in the project.")
]
Pending = Annotated[bool, typer.Option("--pending", help="Searches find it only after a review.")]
Clear = Annotated[list[ClearableField] | None, typer.Option("--clear", help="Clear this field. Repeatable.")]

_NEEDED: Final = "give --title and --content (or --content-from), or a Markdown file"


@remote_command("skillbus knowledge add --type business_rule --title 'Order limits' --content 'At most 20 items.'")
async def add_item(  # noqa: PLR0913 (one parameter for each option)
    session: Session,
    file: File = None,
    *,
    kind: Type = None,
    title: Title = None,
    content: Content = None,
    content_from: ContentFrom = None,
    scope: Scope = None,
    tags: Tags = None,
    priority: Priority = None,
    source: Source = None,
    source_ref: SourceRef = None,
    owner: Owner = None,
    lang: Lang = None,
    valid_from: ValidFrom = None,
    valid_to: ValidTo = None,
    external_id: ExternalId = None,
    pending: Pending = False,
    reason: Reason = None,
    by: By = None,
) -> None:
    """Create an item from options, or from a Markdown file with front matter.

    A file with the `id` or `external_id` of an item changes that item.
    """
    fields = _collect_texts(kind, title, _read_content(content, content_from), scope, tags)
    fields |= {"priority": priority, "source_ref": source_ref, "owner": owner, "lang": lang}
    fields |= {"valid_from": valid_from, "valid_to": valid_to, "external_id": external_id}
    if file is not None:
        if any(value is not None for value in fields.values()):
            raise typer.BadParameter("write these fields into the file", param_hint="FILE")
        written = await _add_file(session, by, file, source, reason, pending=pending)
    else:
        if any(fields[name] is None for name in ("title", "content")):
            raise typer.BadParameter(_NEEDED, param_hint="FILE")
        fields |= {"source": source, "reason": reason, "status": "pending" if pending else None}
        item = build_request(CreateKnowledge, fields)
        body, headers = item.model_dump(mode="json", exclude_unset=True) | session.connection.scope, build_headers(by)
        written = await session.connection.request(KnowledgeWritten, "POST", KNOWLEDGE, json=body, headers=headers)
    _show_written(session, written)


@remote_command("skillbus knowledge update order-limits --content 'At most 50 items.' --expect 1")
async def update_item(  # noqa: PLR0913 (one parameter for each option)
    session: Session,
    item: Id,
    *,
    kind: Type = None,
    title: Title = None,
    content: Content = None,
    content_from: ContentFrom = None,
    scope: Scope = None,
    tags: Tags = None,
    priority: Priority = None,
    source: Source = None,
    source_ref: SourceRef = None,
    owner: Owner = None,
    lang: Lang = None,
    valid_from: ValidFrom = None,
    valid_to: ValidTo = None,
    external_id: ExternalId = None,
    clear: Clear = None,
    expect: Expect = None,
    reason: Reason = None,
    by: By = None,
) -> None:
    """Change an item, which makes a new version.

    Options that are not given stay as they are; an empty text clears, as in --owner "". --tag replaces all tags.
    """
    fields = _collect_texts(kind, title, _read_content(content, content_from), scope, tags)
    fields |= {"priority": priority, "source": source, "source_ref": source_ref, "owner": owner, "lang": lang}
    fields |= {"valid_from": valid_from, "valid_to": valid_to, "external_id": external_id}
    cleared = [name.value.replace("-", "_") for name in clear or ()]
    if both := [name for name in cleared if fields[name] is not None]:
        option = f"--{both[0].replace('_', '-')}"
        raise typer.BadParameter(f"give {option} or --clear for it, not both", param_hint=option)
    if not cleared and all(value is None for value in fields.values()):
        raise typer.BadParameter("give what to change, such as --content", param_hint="ID")
    changes = build_request(KnowledgeChanges, fields | {"reason": reason})
    body = changes.model_dump(mode="json", exclude_unset=True) | dict.fromkeys(cleared)
    path, params, headers = join_path(KNOWLEDGE, item), session.connection.scope, build_headers(by, expect)
    written = await session.connection.request(KnowledgeWritten, "PUT", path, params=params, json=body, headers=headers)
    _show_written(session, written)


def _show_written(session: Session, written: KnowledgeWritten) -> None:
    """Show the result. A type that is nearly a known one may be misspelt, and searches by type would miss the item."""
    session.output.show_result(written, lambda: format_written(written))
    kind = written.item.type
    if kind not in KNOWN_TYPES and (near := find_near_names(kind, KNOWN_TYPES)):
        session.output.print_note(f"{kind!r} is a type of your own. {format_question(near)}", "yellow")


async def _add_file(
    session: Session, by: str | None, file: str, source: str | None, reason: str | None, *, pending: bool
) -> KnowledgeWritten:
    """Write the item of a file, and return it as the server has it then.

    Raises:
        NotImportedError: The server rejected it.
    """
    params = {"source": source, "reason": reason, "status": "pending" if pending else None}
    given = {name: value for name, value in params.items() if value}

    async def stream_file() -> AsyncIterator[bytes]:
        yield read_input(file)

    report = await upload_knowledge(session.connection, stream_file(), b"text/markdown", given, by)
    (result,) = report.results
    if result.id is None or result.outcome is KnowledgePutOutcome.REJECTED:
        raise NotImportedError(result.error or "the item was rejected", "Correct the file and add it again.")
    path, version = join_path(KNOWLEDGE, result.id), {} if result.version is None else {"version": str(result.version)}
    item = await session.connection.request(KnowledgeItem, "GET", path, params=version | session.connection.scope)
    is_repeated = result.outcome is KnowledgePutOutcome.UNCHANGED
    return KnowledgeWritten(item=item, indexed=report.indexed, repeated=is_repeated)


async def upload_knowledge(
    connection: "ApiConnection",
    body: AsyncIterable[bytes],
    media_type: bytes,
    params: Mapping[str, str],
    by: str | None,
) -> "KnowledgeImported":
    """Import NDJSON, a JSON array, or one item in Markdown. `by` is the actor, for history and audit."""
    from skillbus.contracts.http import KnowledgeImported  # noqa: PLC0415 (slow to import, and only needed here)

    return await connection.request(
        KnowledgeImported,
        "POST",
        f"{KNOWLEDGE}/import",
        params={**params, **connection.scope},
        content=body,
        headers={b"Content-Type": media_type, **build_headers(by)},
        wait_s=IMPORT_S,
    )


def _collect_texts(
    kind: str | None, title: str | None, content: str | None, scope: str | None, tags: list[str] | None
) -> dict[str, object]:
    kept_tags = None if tags is None else [tag for tag in tags if tag]
    return {"type": kind, "title": title, "content": content, "scope": scope, "tags": kept_tags}


def _read_content(content: str | None, file: str | None) -> str | None:
    if file is None:
        return content
    if content is not None:
        raise typer.BadParameter("give --content or --content-from, not both", param_hint="--content-from")
    return decode_text(read_input(file), file)
