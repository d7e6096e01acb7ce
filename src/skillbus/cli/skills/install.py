"""`skillbus install`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from skillbus.cli import tables
from skillbus.cli.errors import EXIT_FAILED, CliError, UnreachableError
from skillbus.cli.session import Session

if TYPE_CHECKING:
    from skillbus.cli.client.replies import Installed
    from skillbus.cli.client.skills import Client

Paths = Annotated[list[Path], typer.Argument(metavar="PATH...", exists=True, help="Skills: .zip files or folders.")]


@dataclass(frozen=True, slots=True)
class InstallResult:
    """What became of one path: one of the two is set."""

    path: Path
    installed: "Installed | None" = None
    error: CliError | None = None

    def document(self) -> dict[str, object]:
        """For programs."""
        if self.error is not None:
            return {"path": str(self.path), "outcome": "failed", "error": self.error.document()}
        return {"path": str(self.path)} | (self.installed.model_dump(mode="json") if self.installed else {})

    def row(self) -> tuple[str, str, str, str]:
        """For people: name, version, outcome, warnings."""
        if self.installed is None:
            return str(self.path), "-", "failed", ""
        warnings = "; ".join(f"{finding.where} {finding.message}".strip() for finding in self.installed.warnings)
        return self.installed.name, self.installed.version or "-", self.installed.outcome, warnings


async def install(session: Session, paths: Paths) -> None:
    """Install skills, or update those that are installed. One that fails does not stop the others."""
    with session.output.progress("Installing", len(paths)) as next_item:
        results = await install_all(session.client, paths, next_item)
    session.output.show({"results": [result.document() for result in results]}, lambda: table_of(results))
    failed = [result for result in results if result.error is not None]
    for result in failed if not session.output.as_json else ():
        session.output.note(f"{result.path}:", "bold")
        session.output.fail(result.error or CliError(""))
    if failed:
        raise typer.Exit(EXIT_FAILED)


async def install_all(client: "Client", paths: Sequence[Path], next_item: Callable[[str], None]) -> list[InstallResult]:
    """Install one after the other.

    Raises:
        UnreachableError: there is no server; trying the others is of no use.
    """
    results: list[InstallResult] = []
    for path in paths:
        next_item(path.name)
        results.append(await _install(client, path))
    return results


def table_of(results: Sequence[InstallResult]) -> Table:
    """What became of each path."""
    return tables.rows(("name", "version", "outcome", "warnings"), [result.row() for result in results])


async def _install(client: "Client", path: Path) -> InstallResult:
    from skillbus.cli.skills.packages import open_package  # noqa: PLC0415 (slow)

    try:
        with open_package(path) as package:
            return InstallResult(path, await client.install(package.filename, package.content))
    except UnreachableError:
        raise
    except CliError as error:
        return InstallResult(path, error=error)
