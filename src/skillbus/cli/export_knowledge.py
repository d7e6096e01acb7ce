"""`skillbus export knowledge`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from skillbus.cli.errors import LocalFileError
from skillbus.cli.import_knowledge import MARKDOWN
from skillbus.cli.knowledge_options import Kinds, Statuses
from skillbus.cli.session import Session
from skillbus.cli.text import plain_line

if TYPE_CHECKING:
    from skillbus.cli.knowledge_client import KnowledgeClient

Place = Annotated[
    str,
    typer.Argument(
        metavar="FILE|DIR", help="A file gets a line an item; a folder, or a name that ends with /, a .md file an item."
    ),
]


async def export_knowledge(session: Session, place: Place, kinds: Kinds = None, statuses: Statuses = None) -> None:
    """Save whole items as `skillbus import knowledge` takes them again: active ones, unless --status says otherwise.

    A line has all of an item; a Markdown file its content, and in its front matter what else is said of it. A file is
    there when all of it is; - is stdout.
    """
    if place == "-" and session.output.as_json:
        raise typer.BadParameter("the items themselves are printed: leave out --json, or name a file", param_hint="-")
    many = {"type": kinds, "status": statuses}
    only = {name: [value.value for value in values] for name, values in many.items() if values}
    if place == "-":
        async with session.knowledge.exported(only) as lines:
            async for line in lines:
                session.output.write(f"{line}\n")
        return
    path = Path(place)
    is_folder = path.is_dir() or place.endswith("/")
    with _told(path):
        if is_folder:
            count = await _to_folder(session, path, only)
        else:
            count = await _to_file(session.knowledge, path, only)
    document: dict[str, object] = {"path": place, "items": count}
    session.output.show(document, lambda: plain_line(f"{count} items saved in {place}"))


async def _to_file(client: "KnowledgeClient", path: Path, only: Mapping[str, Sequence[str]]) -> int:
    count = 0
    with _replacing(path) as file:
        async with client.exported(only) as lines:
            async for line in lines:
                file.write(f"{line}\n")
                count += 1
    return count


async def _to_folder(session: Session, folder: Path, only: Mapping[str, Sequence[str]]) -> int:
    """A file an item, as it was when the list was made: of one that changes meanwhile, that version."""
    async with session.knowledge.exported(only) as lines:
        versions = [_named(line) async for line in lines]
    folder.mkdir(parents=True, exist_ok=True)
    with session.output.progress("Exporting", len(versions)) as next_item:
        for item_id, version in versions:
            next_item(item_id)
            text = await session.knowledge.markdown(item_id, {"version": str(version)})
            with _replacing(folder / f"{item_id}{MARKDOWN}") as file:
                file.write(text)
    known = {f"{item_id}{MARKDOWN}" for item_id, _ in versions}
    others = [path for path in folder.glob(f"*{MARKDOWN}") if path.name not in known]
    if others:
        session.output.note(f"{len(others)} other {MARKDOWN} files stay in {folder}: an import would take them too.")
    return len(versions)


def _named(line: str) -> tuple[str, int]:
    """Id and version of an item, as its line says them. The contract lets no id be anything but a name of a file."""
    item = json.loads(line)
    return str(item["id"]), int(item["version"])


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    """A file that takes its place when all is written; until then, and if that fails, what was there stays."""
    partial = path.with_name(f".{path.name}.part")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LocalFileError(f"{path}: {error.strerror or error}", "Name another place.") from error
