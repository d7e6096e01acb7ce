"""`skillbus export knowledge`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from skillbus.cli.errors import LocalFileError
from skillbus.cli.knowledge.importer import MARKDOWN
from skillbus.cli.knowledge.options import Kinds, Status, Statuses
from skillbus.cli.session import Session
from skillbus.cli.text import plain_line

Place = Annotated[
    str,
    typer.Argument(
        metavar="FILE|DIR", help="A file gets a line an item; a folder, or a name that ends with /, a .md file an item."
    ),
]


async def export_knowledge(session: Session, place: Place, kinds: Kinds = None, statuses: Statuses = None) -> None:
    """Save whole items as `skillbus import knowledge` takes them again: active ones, unless --status says otherwise.

    A line has all of an item; a Markdown file has its content, and what else is said of it in its front matter. A file
    is there when all of it is; - is stdout.
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
    if is_folder and set(statuses or ()) - {Status.ACTIVE}:
        why = "Markdown does not say it, and an import would have them found: name a file of lines"
        raise typer.BadParameter(why, param_hint="--status")
    with _told(path):
        count = await (_to_folder if is_folder else _to_file)(session, path, only)
    document: dict[str, object] = {"path": place, "items": count}
    session.output.show(document, lambda: plain_line(f"{count} items saved in {place}"))


async def _to_file(session: Session, path: Path, only: Mapping[str, Sequence[str]]) -> int:
    count = 0
    with _replacing(path) as file, session.output.sending(path.name, None) as done:
        async with session.knowledge.exported(only) as lines:
            async for line in lines:
                file.write(f"{line}\n")
                done(len(line))
                count += 1
    return count


async def _to_folder(session: Session, folder: Path, only: Mapping[str, Sequence[str]]) -> int:
    """A file an item, by its id: the contract lets no id be anything but a name of a file."""
    from skillbus.contracts.learner.knowledge import KnowledgeItem  # noqa: PLC0415 (slow)
    from skillbus.gateway.domain.knowledge.markdown import to_markdown  # noqa: PLC0415 (slow)

    folder.mkdir(parents=True, exist_ok=True)
    names: set[str] = set()
    with session.output.sending(folder.name, None) as done:
        async with session.knowledge.exported(only) as lines:
            async for line in lines:
                item = KnowledgeItem.model_validate_json(line)
                name = f"{item.id}{MARKDOWN}"
                with _replacing(folder / name) as file:
                    file.write(to_markdown(item))
                names.add(name)
                done(len(line))
    if others := {path.name for path in folder.glob(f"*{MARKDOWN}")} - names:
        session.output.note(f"{len(others)} other {MARKDOWN} files stay in {folder}: an import would take them too.")
    return len(names)


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
