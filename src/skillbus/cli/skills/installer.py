"""`skillbus install`, which is also `skillbus skills import`."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.client.http_api import SKILLS
from skillbus.cli.errors import EXIT_FAILED, CliError, UnreachableError
from skillbus.cli.output import format_number
from skillbus.cli.session import Session, remote_command
from skillbus.cli.skills.packages import PackageToInstall, open_package, open_packages
from skillbus.contracts.http import UploadedSkill

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Skills: .zip files, folders, folders of skills, or git+https://…@COMMIT[#FOLDER].",
        show_default=False,
    ),
]

_EXAMPLES = """skillbus install examples/skills/git-commit
  $ skillbus skills import ~/.claude/skills
  $ skillbus install 'git+https://example.com/skills.git@COMMIT#skills/pdf'"""


@dataclass(frozen=True, slots=True)
class InstallResult:
    """Result of the installation of one package: either `installed` or `error` is set."""

    path: str
    installed: UploadedSkill | None = None
    error: CliError | None = None

    def document(self) -> dict[str, object]:
        """Return the result for programs."""
        if self.error is not None:
            return {"path": self.path, "outcome": "failed", "error": self.error.document()}
        return {"path": self.path} | (self.installed.model_dump(mode="json") if self.installed else {})


@remote_command(_EXAMPLES)
async def install_skills(session: Session, sources: Sources) -> None:
    """Install skills, or update installed ones.

    A folder without a SKILL.md stands for the skills in it at any depth, and so does a git repository. Your own git
    fetches the commit, without submodules and Git LFS. A skill that fails does not stop the others.
    """
    async with open_packages(sources) as packages:
        with session.output.show_progress("Installing", len(packages)) as begin_item:
            results = await install_all(session.connection, packages, begin_item)
    document: dict[str, object] = {"results": [result.document() for result in results]}
    session.output.show_result(document, lambda: render_results(results))
    failed = [(result.path, result.error) for result in results if result.error is not None]
    for path, error in failed if not session.output.as_json else ():
        session.output.print_note(f"{path}:", "bold")
        session.output.print_error(error)
    if failed:
        raise typer.Exit(EXIT_FAILED)


async def install_all(
    connection: "ApiConnection", packages: Sequence[PackageToInstall], begin_item: Callable[[str], None]
) -> list[InstallResult]:
    """Install skills one after the other.

    Raises:
        UnreachableError: There is no server, so the other packages are not tried.
    """
    results: list[InstallResult] = []
    for package in packages:
        begin_item(package.path.name)
        try:
            if package.error is not None:
                raise package.error
            with open_package(package.path) as files:
                skill = await connection.request(UploadedSkill, "POST", SKILLS, files=files, data=connection.scope)
                results.append(InstallResult(package.name, skill))
        except UnreachableError:
            raise
        except CliError as error:
            results.append(InstallResult(package.name, error=error))
    return results


def render_results(results: Sequence[InstallResult]) -> RenderableType:
    """Render the results of an installation, with counts if there are several."""
    rows, counts = [], Counter[str]()
    names = Counter(result.installed.name for result in results if result.installed is not None)
    for result in results:
        if (skill := result.installed) is None:
            counts["failed"] += 1
            rows.append((result.path, "-", "failed", ""))
            continue
        counts[skill.outcome] += 1
        warnings = [f"{finding.where} {finding.message}".strip() for finding in skill.warnings]
        if names[skill.name] > 1:
            warnings.insert(0, f"{names[skill.name]} packages have this name, and the last one counts: {result.path}")
        rows.append((skill.name, skill.version or "-", skill.outcome, "; ".join(warnings)))
    table = tables.build_table(("name", "version", "outcome", "warnings"), rows)
    if len(results) == 1:
        return table
    summary = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
    return Group(table, Text(f"{format_number(len(results), 'skill')}: {summary}", "dim"))
