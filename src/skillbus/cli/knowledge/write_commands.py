"""`skillbus knowledge add` and `skillbus knowledge update`."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from skillbus.cli.errors import LocalFileError, NotImportedError
from skillbus.cli.knowledge import view as knowledge_tables
from skillbus.cli.knowledge.options import OPTIONS, By, Expect, Id, Kind, Reason
from skillbus.cli.session import Session

if TYPE_CHECKING:
    from skillbus.contracts.learner.items import KnowledgeWritten


class Clearable(StrEnum):
    """What an item may do without, and no empty text stands for."""

    VALID_FROM = "valid-from"
    VALID_TO = "valid-to"
    EXTERNAL_ID = "external-id"


File = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help="Markdown with front matter; - for stdin.", show_default=False),
]
Type = Annotated[Kind | None, typer.Option("--type", help="What kind of knowledge it is.")]
Title = Annotated[str | None, typer.Option("--title", help="What it is about, in a line.")]
Content = Annotated[str | None, typer.Option("--content", metavar="MARKDOWN", help="What there is to know.")]
ContentFrom = Annotated[
    str | None, typer.Option("--content-from", metavar="FILE", help="The same from a file; - for stdin.")
]
Scope = Annotated[str | None, typer.Option("--scope", help='/api/live/*, module:name; "" is everything.')]
Tags = Annotated[list[str] | None, typer.Option("--tag", help='Repeatable; all of them: "" for none.')]
Priority = Annotated[int | None, typer.Option("--priority", min=0, max=10, help="10 is the highest.")]
Source = Annotated[str | None, typer.Option("--source", help="Where it comes from.")]
SourceRef = Annotated[str | None, typer.Option("--source-ref", help="What of it: a task's id, a file.")]
Owner = Annotated[str | None, typer.Option("--owner", help="Whose it is.")]
Lang = Annotated[str | None, typer.Option("--lang", help="Its language: zh, en.")]
ValidFrom = Annotated[str | None, typer.Option("--valid-from", metavar="TIME", help="Not found before.")]
ValidTo = Annotated[str | None, typer.Option("--valid-to", metavar="TIME", help="Not found from then on.")]
ExternalId = Annotated[str | None, typer.Option("--external-id", help="What others call it; unique in a project.")]
Pending = Annotated[bool, typer.Option("--pending", help="Have it reviewed before it is found.")]
Clear = Annotated[list[Clearable] | None, typer.Option("--clear", help="Empty this; repeatable.")]

_NEEDED: Final = "say --type, --title and --content (or --content-from), or name a Markdown file"


async def add(  # noqa: PLR0913 (one parameter an option)
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
    """Write an item: from options, or from Markdown with front matter. Search finds it from then on.

    A file whose `id` or `external_id` is known changes that item.
    """
    said = _fields(kind, title, _content(content, content_from), scope, tags)
    said |= {"priority": priority, "source_ref": source_ref, "owner": owner, "lang": lang}
    said |= {"valid_from": valid_from, "valid_to": valid_to, "external_id": external_id}
    if file is not None:
        if any(value is not None for value in said.values()):
            raise typer.BadParameter("a file says all of an item: write it there", param_hint="FILE")
        written = await _add_file(session, file, source, pending=pending, reason=reason, by=by)
    else:
        written = await _add(session, said | {"source": source, "reason": reason}, pending=pending, by=by)
    session.output.show(written, lambda: knowledge_tables.written(written))


async def update(  # noqa: PLR0913 (one parameter an option)
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
    """Change an item: a new version. What is not named stays; an empty text clears: --owner "". --tag says all tags."""
    from skillbus.cli.request_fields import request_of  # noqa: PLC0415 (slow)
    from skillbus.contracts.learner.items import KnowledgeChanges  # noqa: PLC0415 (slow)

    said = _fields(kind, title, _content(content, content_from), scope, tags)
    said |= {"priority": priority, "source": source, "source_ref": source_ref, "owner": owner, "lang": lang}
    said |= {"valid_from": valid_from, "valid_to": valid_to, "external_id": external_id}
    emptied = [name.value.replace("-", "_") for name in clear or ()]
    if both := [name for name in emptied if said[name] is not None]:
        raise typer.BadParameter("it is given as well: say one of the two", param_hint=f"--{both[0].replace('_', '-')}")
    if not emptied and all(value is None for value in said.values()):
        raise typer.BadParameter("say what changes, as with --content", param_hint="ID")
    changes = request_of(KnowledgeChanges, said | {"reason": reason}, OPTIONS)
    body = changes.model_dump(mode="json", exclude_unset=True) | dict.fromkeys(emptied)
    written = await session.knowledge.acting(by).update(item, body, expect)
    session.output.show(written, lambda: knowledge_tables.written(written))


async def _add(session: Session, fields: dict[str, object], *, pending: bool, by: str | None) -> "KnowledgeWritten":
    from skillbus.cli.request_fields import request_of  # noqa: PLC0415 (slow)
    from skillbus.contracts.learner.items import CreateKnowledge  # noqa: PLC0415 (slow)

    if any(fields[name] is None for name in ("type", "title", "content")):
        raise typer.BadParameter(_NEEDED, param_hint="FILE")
    item = request_of(CreateKnowledge, fields | ({"status": "pending"} if pending else {}), OPTIONS)
    return await session.knowledge.acting(by).create(item.model_dump(mode="json", exclude_unset=True))


async def _add_file(
    session: Session, file: str, source: str | None, *, pending: bool, reason: str | None, by: str | None
) -> "KnowledgeWritten":
    """Write the item of a file, and read it as it is by then.

    Raises:
        NotImportedError: The server refused it.
    """
    from skillbus.contracts.learner.items import KnowledgeWritten  # noqa: PLC0415 (slow)

    said = {"source": source, "reason": reason, "status": "pending" if pending else None}
    client = session.knowledge.acting(by)
    report = await client.import_markdown(_read(file), {name: value for name, value in said.items() if value})
    (result,) = report.results
    if result.id is None or result.outcome == "rejected":
        raise NotImportedError(result.error or "it was rejected", "Correct the file, and add it again.")
    version = {"version": str(result.version)} if result.version is not None else {}
    item = await client.item(result.id, version)
    return KnowledgeWritten(item=item, indexed=report.indexed, repeated=result.outcome == "unchanged")


def _fields(
    kind: Kind | None, title: str | None, content: str | None, scope: str | None, tags: list[str] | None
) -> dict[str, object]:
    kept = None if tags is None else [tag for tag in tags if tag]
    return {"type": kind and kind.value, "title": title, "content": content, "scope": scope, "tags": kept}


def _content(content: str | None, file: str | None) -> str | None:
    if file is None:
        return content
    if content is not None:
        raise typer.BadParameter("say --content or --content-from, not both", param_hint="--content-from")
    try:
        return _read(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise LocalFileError(f"{file} is not UTF-8: {error}", "Save it as UTF-8.") from error


def _read(file: str) -> bytes:
    """A file's bytes, or those of standard input.

    Raises:
        LocalFileError: It cannot be read.
    """
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise LocalFileError(f"{file}: {error.strerror or error}", "Check the path and its permissions.") from error
