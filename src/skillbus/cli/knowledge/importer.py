"""`skillbus knowledge import`."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from skillbus.cli import tables
from skillbus.cli.client.http_api import NDJSON
from skillbus.cli.errors import LocalFileError, NotImportedError
from skillbus.cli.input_files import STDIN, PartSize, upload_lines
from skillbus.cli.knowledge.options import By, Reason
from skillbus.cli.knowledge.write_commands import upload_knowledge
from skillbus.cli.output import CommandOutput, format_number
from skillbus.cli.session import Session, remote_command
from skillbus.contracts.errors import RequestError
from skillbus.contracts.http import KnowledgeImported, KnowledgeLineImported
from skillbus.contracts.learner.bulk import KnowledgePutOutcome
from skillbus.gateway.domain.knowledge_markdown import parse_markdown

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

Place = Annotated[
    str,
    typer.Argument(metavar="FILE|DIR", help="NDJSON, a JSON array, a .md file or a folder of them; - for stdin."),
]
Source = Annotated[
    str | None, typer.Option("--source", help="Source of the items. Default: the `source` of each item.")
]
Pending = Annotated[bool, typer.Option("--pending", help="Searches find new items only after a review.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Report what an import would do, and write nothing.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait up to two minutes until searches find the items.")]

MARKDOWN_SUFFIX: Final = ".md"
_EXAMPLE: Final = 'An item is a line: {"id": …, "type": …, "title": …, "content": …}'
_FILES_PER_REQUEST: Final = 200
"""Largest number of items that the learner handles at once."""


class KnowledgeFileImported(KnowledgeLineImported):
    """Result for one Markdown file."""

    file: str


class KnowledgeFilesImported(KnowledgeImported):
    """Result of an import of Markdown files."""

    results: tuple[KnowledgeFileImported, ...] = ()


@remote_command("skillbus knowledge import docs/knowledge --source wiki")
async def import_knowledge(
    session: Session,
    place: Place,
    source: Source = None,
    pending: Pending = False,
    dry_run: DryRun = False,
    wait: Wait = False,
    reason: Reason = None,
    by: By = None,
) -> None:
    """Import knowledge items: one JSON object a line, one JSON array, or Markdown files with front matter.

    Each item needs `type`, `title` and `content`. An item with a known `id` or `external_id` gets a new version;
    unchanged items are skipped. In a folder, every .md file at any depth is an item. Exits with 1 if any is rejected;
    the others are imported.
    """
    params = {"source": source, "reason": reason, "status": "pending" if pending else None}
    given = {name: value for name, value in params.items() if value} | ({"dry_run": "true"} if dry_run else {})
    given |= {"wait": "indexed"} if wait else {}
    files = list_markdown_files(Path(place)) if place != STDIN else None
    report: KnowledgeImported
    if files is None:

        async def send(part: AsyncIterator[bytes], first_line: int) -> KnowledgeImported:
            params = {"only": "problems", **given, "first_line": str(first_line)}
            return await upload_knowledge(session.connection, part, NDJSON, params, by)

        report = _merge_reports(await upload_lines(session.output, place, _EXAMPLE, send))
        problems = [(str(it.line), *_describe_problem(it)) for it in report.results]
    else:
        report = files_report = await import_files(session.output, session.connection, files, given, by)
        problems = [(it.file, *_describe_problem(it)) for it in files_report.results]
    later = f"; the index still lacks {report.unindexed} of them" if report.unindexed else ""
    summary = f"{format_number(report.total, 'item')}{', nothing was written' if report.dry_run else ''}{later}"
    place_heading = "line" if files is None else "file"
    session.output.show_result(
        report, lambda: tables.build_import_report("items", report.counts, place_heading, problems, summary)
    )
    if rejected := report.counts.get(KnowledgePutOutcome.REJECTED, 0):
        advice = "Correct these items and import them again. Unchanged items are skipped."
        session.fail(NotImportedError(f"{rejected} of {report.total} were rejected", advice))


def list_markdown_files(place: Path) -> tuple[Path, ...] | None:
    """Return the Markdown files of a path by name, or None if the path is a file of lines.

    Raises:
        LocalFileError: A folder has none.
    """
    if not place.is_dir():
        return (place,) if place.suffix.lower() == MARKDOWN_SUFFIX else None
    found = tuple(
        sorted(path for path in place.rglob("*") if path.suffix.lower() == MARKDOWN_SUFFIX and path.is_file())
    )
    if not found:
        raise LocalFileError(f"no {MARKDOWN_SUFFIX} files are in {place}", "Give a folder that has some, or a file.")
    return found


async def import_files(
    output: CommandOutput, connection: "ApiConnection", files: Sequence[Path], params: Mapping[str, str], by: str | None
) -> KnowledgeFilesImported:
    """Import the item of each file. If two files have the same id, the later one wins.

    Raises:
        LocalFileError: A file cannot be read; the files before it are imported.
    """
    reports: list[KnowledgeImported] = []
    results: list[KnowledgeFileImported] = []
    waiting, size = list(files), PartSize()
    with output.show_items("Importing", len(files)) as add_done:
        while waiting:
            chosen = waiting[: min(size.items, _FILES_PER_REQUEST)]
            del waiting[: len(chosen)]
            lines, rejected = _read_items(chosen)
            results += rejected
            counts = {KnowledgePutOutcome.REJECTED: len(rejected)}
            reports.append(KnowledgeImported(total=len(rejected), counts=counts, indexed=True))
            if lines:
                part, wanted = _stream_lines(lines.values()), {"only": "problems", **params}
                reports.append(await upload_knowledge(connection, part, NDJSON, wanted, by))
                paths = list(lines)
                for it in reports[-1].results:
                    named = {**it.model_dump(), "line": 1, "file": str(paths[it.line - 1])}
                    results.append(KnowledgeFileImported.model_validate(named))
            add_done(len(chosen))
            size.adapt()
    merged = _merge_reports(reports).model_dump(exclude={"results", "dry_run"})
    results.sort(key=lambda result: result.file)
    return KnowledgeFilesImported(**merged, dry_run="dry_run" in params, results=tuple(results))


def _read_items(files: Sequence[Path]) -> tuple[dict[Path, bytes], list[KnowledgeFileImported]]:
    """Read files as lines of NDJSON. Also return the results of those that are not items."""
    lines: dict[Path, bytes] = {}
    rejected: list[KnowledgeFileImported] = []
    for path in files:
        try:
            item = parse_markdown(path.read_bytes().decode("utf-8"))
        except OSError as error:
            raise LocalFileError.from_os_error(path, error) from error
        except (UnicodeDecodeError, RequestError) as error:
            reason = error.message if isinstance(error, RequestError) else f"is not UTF-8: {error}"
            outcome = KnowledgePutOutcome.REJECTED
            rejected.append(KnowledgeFileImported(line=1, file=str(path), outcome=outcome, error=reason))
            continue
        lines[path] = f"{json.dumps(item, ensure_ascii=False)}\n".encode()
    return lines, rejected


async def _stream_lines(lines: Iterable[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


def _merge_reports(reports: Sequence[KnowledgeImported]) -> KnowledgeImported:
    counts = Counter(dict.fromkeys(KnowledgePutOutcome, 0))
    for report in reports:
        counts.update(report.counts)
    return KnowledgeImported(
        total=sum(report.total for report in reports),
        counts=dict(counts),
        dry_run=reports[0].dry_run,
        indexed=all(report.indexed for report in reports),
        unindexed=sum(report.unindexed for report in reports),
        results=tuple(result for report in reports for result in report.results),
    )


def _describe_problem(it: KnowledgeLineImported) -> tuple[str, str, str]:
    return it.external_id or it.id or "-", it.outcome.value, it.error or ""
