"""`skillbus knowledge export`."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from skillbus.cli.client.http_api import KNOWLEDGE, parse_reply
from skillbus.cli.errors import LocalFileError
from skillbus.cli.input_files import STDIN
from skillbus.cli.knowledge.importer import MARKDOWN_SUFFIX
from skillbus.cli.knowledge.options import Statuses, Types
from skillbus.cli.output import clean_line, format_number
from skillbus.cli.session import Session, remote_command
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.gateway.domain.knowledge_markdown import format_markdown

if TYPE_CHECKING:
    import httpx

    from skillbus.cli.client.connection import ApiConnection

Place = Annotated[
    str,
    typer.Argument(metavar="FILE|DIR", help="File for one line an item, folder (or NAME/) for one .md file an item."),
]

AllStatuses = Annotated[bool, typer.Option("--all", help="Items with any status: pending and archived ones, too.")]

_SILENCE_S: Final = 60.0


@remote_command("skillbus knowledge export backup.ndjson --all")
async def export_knowledge(
    session: Session, place: Place, types: Types = None, statuses: Statuses = None, all_statuses: AllStatuses = False
) -> None:
    """Save items in the form that `skillbus knowledge import` reads: active ones, or those of --status, or --all.

    A line has all fields of an item; a Markdown file has its content, and the other fields in front matter. A file is
    replaced when it is complete; - is stdout.
    """
    if all_statuses and statuses:
        raise typer.BadParameter("give --status or --all, not both", param_hint="--all")
    statuses = list(KnowledgeStatus) if all_statuses else statuses
    many = {"type": types, "status": statuses}
    filters = {name: list(map(str, values)) for name, values in many.items() if values}
    if place == STDIN:
        if session.output.as_json:
            raise typer.BadParameter("leave out --json, or give a file: the items are printed", param_hint="-")
        async with _open_export(session.connection, filters) as lines:
            async for line in lines:
                session.output.write_text(f"{line}\n")
        return
    path = Path(place)
    is_folder = path.is_dir() or place.endswith("/")
    if is_folder and set(statuses or ()) - {KnowledgeStatus.ACTIVE}:
        reason = "Markdown has no status, so an import would make the items active: give a file of lines"
        raise typer.BadParameter(reason, param_hint="--all" if all_statuses else "--status")
    try:
        count = await (_export_folder if is_folder else _export_file)(session, path, filters)
    except OSError as error:
        raise LocalFileError.from_os_error(path, error, "Give another place.") from error
    document: dict[str, object] = {"path": place, "items": count}
    session.output.show_result(document, lambda: clean_line(f"{format_number(count, 'item')} saved in {place}"))


async def _export_file(session: Session, path: Path, filters: Mapping[str, Sequence[str]]) -> int:
    count = 0
    with _replace_file(path) as file, session.output.show_items(path.name, None) as add_done:
        async with _open_export(session.connection, filters) as lines:
            async for line in lines:
                file.write(f"{line}\n")
                add_done(1)
                count += 1
    return count


async def _export_folder(session: Session, folder: Path, filters: Mapping[str, Sequence[str]]) -> int:
    """Write one file for each item, named by its id: the contract allows only ids that are file names."""
    folder.mkdir(parents=True, exist_ok=True)
    names: set[str] = set()
    with session.output.show_items(folder.name, None) as add_done:
        async with _open_export(session.connection, filters) as lines:
            async for line in lines:
                item = KnowledgeItem.model_validate_json(line)
                name = f"{item.id}{MARKDOWN_SUFFIX}"
                with _replace_file(folder / name) as file:
                    file.write(format_markdown(item))
                names.add(name)
                add_done(1)
    if others := {path.name for path in folder.glob(f"*{MARKDOWN_SUFFIX}")} - names:
        session.output.print_note(
            f"{folder} has {len(others)} other {MARKDOWN_SUFFIX} files; an import would read them too."
        )
    return len(names)


@asynccontextmanager
async def _open_export(
    connection: "ApiConnection", filters: Mapping[str, Sequence[str]]
) -> AsyncIterator[AsyncIterator[str]]:
    """Open the export: one JSON line for each item, as they arrive. A lost connection raises `NoAnswerError`."""
    params = {**filters, **connection.scope}
    async with connection.stream("GET", f"{KNOWLEDGE}/export", params=params, silence_s=_SILENCE_S) as response:
        yield _iterate_items(response)


async def _iterate_items(response: "httpx.Response") -> AsyncIterator[str]:
    r"""Yield checked lines. Only `\n` ends a line of NDJSON: the texts may hold other line separators."""
    rest = ""
    async for chunk in response.aiter_text():
        *lines, rest = (rest + chunk).split("\n")
        for line in lines:
            parse_reply(KnowledgeItem, line, response)
            yield line
    if rest:
        parse_reply(KnowledgeItem, rest, response)
        yield rest


@contextmanager
def _replace_file(path: Path) -> Iterator[TextIO]:
    """Open a file that replaces `path` when it is complete. If writing fails, the old file stays."""
    partial = path.with_name(f".{path.name}.part")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
