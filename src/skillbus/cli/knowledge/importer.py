"""`skillbus import knowledge`."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from skillbus.cli.errors import LocalFileError, NotImportedError
from skillbus.cli.knowledge import view as knowledge_tables
from skillbus.cli.knowledge.options import By, Reason
from skillbus.cli.output import Output
from skillbus.cli.part_upload import name_of, opened_file, send_parts
from skillbus.cli.session import Session

if TYPE_CHECKING:
    from skillbus.cli.client.knowledge import KnowledgeClient
    from skillbus.cli.client.replies import KnowledgeImported

Place = Annotated[
    str,
    typer.Argument(metavar="FILE|DIR", help="NDJSON, a JSON array, a .md file, a folder of those; - for stdin."),
]
Source = Annotated[str | None, typer.Option("--source", help="Where they come from; what each says itself if absent.")]
Pending = Annotated[bool, typer.Option("--pending", help="Have new ones reviewed before they are found.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would become of them, and write nothing.")]

MARKDOWN: Final = ".md"
_EXAMPLE: Final = 'An item is a line: {"id": …, "type": …, "title": …, "content": …}'
_REJECTED: Final = "rejected"
OUTCOMES: Final = ("created", "updated", "unchanged", _REJECTED)
"""As `skillbus.contracts.knowledge_bulk.PutOutcome`, which is slow to import; a test compares the two."""
_FILES: Final = 200
"""Of one request: as many as the learner takes at once."""


async def import_knowledge(
    session: Session,
    place: Place,
    source: Source = None,
    pending: Pending = False,
    dry_run: DryRun = False,
    reason: Reason = None,
    by: By = None,
) -> None:
    """Write items of knowledge, thousands at once: a JSON object a line, one array, or Markdown with front matter.

    Each needs `type`, `title` and `content`. One that is known, by its `id` or `external_id`, gets a new version;
    what did not change is left as it is. Of a folder, every .md file below it is an item. Exits with 1 when any was
    rejected; the others are taken.
    """
    said = {"source": source, "reason": reason, "status": "pending" if pending else None}
    wishes = {name: value for name, value in said.items() if value} | ({"dry_run": "true"} if dry_run else {})
    client = session.knowledge.acting(by)
    files = markdown_files(Path(place)) if place != "-" else None
    if files is None:
        report = await _import_lines(session.output, client, place, wishes)
    else:
        report = await import_files(session.output, client, files, wishes)
    session.output.show(report, lambda: knowledge_tables.imported(report, "line" if files is None else "file"))
    rejected = report.counts.get(_REJECTED, 0)
    if rejected:
        if not session.output.as_json:
            advice = "Correct these, import it again: what did not change is left as it is."
            session.output.fail(NotImportedError(f"{rejected} of {report.total} were rejected", advice))
        raise typer.Exit(NotImportedError.exit_code)


def markdown_files(place: Path) -> tuple[Path, ...] | None:
    """The Markdown files that are meant, by name; None if a file of lines is.

    Raises:
        LocalFileError: A folder has none.
    """
    if not place.is_dir():
        return (place,) if place.suffix.lower() == MARKDOWN else None
    found = tuple(sorted(path for path in place.rglob("*") if path.suffix.lower() == MARKDOWN and path.is_file()))
    if not found:
        raise LocalFileError(f"no {MARKDOWN} files are in {place}", "Name a folder that has some, or a file.")
    return found


async def import_files(
    output: Output, client: "KnowledgeClient", files: Sequence[Path], wishes: Mapping[str, str]
) -> "KnowledgeImported":
    """Write the item of each file: of two with the same id the later one counts.

    Raises:
        LocalFileError: One cannot be read; what was sent before it is written.
    """
    reports: list[KnowledgeImported] = []
    with output.progress("Importing", len(files)) as next_item:
        for start in range(0, len(files), _FILES):
            part = files[start : start + _FILES]
            lines = _lines_of(part, next_item)
            sent = {path: line for path, line in lines.items() if isinstance(line, bytes)}
            reports.append(_refused({path: line for path, line in lines.items() if isinstance(line, str)}))
            if sent:
                reports.append(_named(await client.import_items(_each(sent.values()), wishes), tuple(sent)))
    together = _together(reports)
    results = tuple(sorted(together.results, key=lambda result: result.file or ""))
    return together.model_copy(update={"dry_run": "dry_run" in wishes, "results": results})


def _lines_of(files: Sequence[Path], next_item: Callable[[str], None]) -> dict[Path, bytes | str]:
    """Each as a line of NDJSON; or, as text, why it is no item."""
    from skillbus.contracts.errors import RequestError  # noqa: PLC0415 (slow)
    from skillbus.gateway.domain.knowledge.markdown import from_markdown  # noqa: PLC0415 (slow)

    lines: dict[Path, bytes | str] = {}
    for path in files:
        next_item(path.name)
        try:
            item = from_markdown(path.read_bytes().decode("utf-8"))
            lines[path] = f"{json.dumps(item, ensure_ascii=False)}\n".encode()
        except OSError as error:
            raise LocalFileError(f"{path}: {error.strerror or error}", "Check the path and its permissions.") from error
        except UnicodeDecodeError as error:
            lines[path] = f"is not UTF-8: {error}"
        except RequestError as error:
            lines[path] = error.message
    return lines


def _refused(reasons: Mapping[Path, str]) -> "KnowledgeImported":
    """The report of files that are no items."""
    from skillbus.cli.client.replies import ItemImported, KnowledgeImported  # noqa: PLC0415 (slow)

    results = (ItemImported(line=1, file=str(path), outcome=_REJECTED, error=why) for path, why in reasons.items())
    counts = {_REJECTED: len(reasons)}
    return KnowledgeImported(total=len(reasons), counts=counts, indexed=True, results=tuple(results))


def _named(report: "KnowledgeImported", files: Sequence[Path]) -> "KnowledgeImported":
    """With the file of each line that somebody should look at."""
    results = (it.model_copy(update={"line": 1, "file": str(files[it.line - 1])}) for it in report.results)
    return report.model_copy(update={"results": tuple(results)})


async def _each(lines: Iterable[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


async def _import_lines(
    output: Output, client: "KnowledgeClient", file: str, wishes: Mapping[str, str]
) -> "KnowledgeImported":
    async def send(part: AsyncIterator[bytes], first_line: int) -> "KnowledgeImported":
        return await client.import_items(part, {**wishes, "first_line": str(first_line)})

    with opened_file(file, _EXAMPLE) as (content, size_bytes), output.sending(name_of(file), size_bytes) as done:
        return _together(await send_parts(output, content, send, done))


def _together(reports: "list[KnowledgeImported]") -> "KnowledgeImported":
    from skillbus.cli.client.replies import KnowledgeImported  # noqa: PLC0415 (slow)

    counts = Counter(dict.fromkeys(OUTCOMES, 0))
    for report in reports:
        counts.update(report.counts)
    return KnowledgeImported(
        total=sum(report.total for report in reports),
        counts=dict(counts),
        dry_run=reports[0].dry_run,
        indexed=all(report.indexed for report in reports),
        results=tuple(result for report in reports for result in report.results),
    )
