"""`skillbus runs`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skillbus.cli.errors import EXIT_FAILED, CliError
from skillbus.cli.runs import view as run_tables
from skillbus.cli.session import Session
from skillbus.cli.skills.names import checked_name
from skillbus.cli.text import size

if TYPE_CHECKING:
    from skillbus.contracts.sandbox.run_history import RunRecord

RunId = Annotated[str | None, typer.Argument(metavar="ID", help="One run; the newest if absent.", show_default=False)]
Skill = Annotated[str | None, typer.Option("--skill", help="Only runs of this skill.")]
State = Annotated[str | None, typer.Option("--state", help="Only those: ok, failed, running, timeout and so on.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="So many at most.")]
Save = Annotated[Path | None, typer.Option("--save", metavar="DIR", file_okay=False, help="Save the files it left.")]
Cancel = Annotated[bool, typer.Option("--cancel", help="End it.")]


async def runs(
    session: Session,
    run_id: RunId = None,
    skill: Skill = None,
    state: State = None,
    limit: Limit = 20,
    save: Save = None,
    cancel: Cancel = False,
) -> None:
    """Show the runs of the last day, the newest first, or one run with its limits and what it used.

    Neither arguments nor output are remembered; the files that a run left are, for a day.
    """
    if run_id is None:
        if save is not None or cancel:
            raise typer.BadParameter("name the run", param_hint="ID")
        only = {"skill": checked_name(skill) if skill else "", "state": state or ""}
        found = await session.runs.list(limit, {name: value for name, value in only.items() if value})
        document: dict[str, object] = {"runs": [record.model_dump(mode="json") for record in found]}
        session.output.show(document, lambda: run_tables.runs(found))
        return
    if cancel:
        cancelled = await session.runs.cancel(run_id)
        session.output.show(cancelled, lambda: "It is being ended." if cancelled.ending else "It had ended before.")
        return
    await _show(session, await session.runs.get(run_id), save)


async def _show(session: Session, record: "RunRecord", folder: Path | None) -> None:
    saved, errors = ({}, []) if folder is None else await _save(session, record, folder)
    document: dict[str, object] = record.model_dump(mode="json")
    if folder is not None:
        document |= {"saved": saved, "errors": [error.document() for error in errors]}
    session.output.show(document, lambda: run_tables.run(record))
    for error in errors:
        if not session.output.as_json:
            session.output.fail(error)
    if errors:
        raise typer.Exit(EXIT_FAILED)


async def _save(session: Session, record: "RunRecord", folder: Path) -> tuple[dict[str, str], list[CliError]]:
    """Where each file that could be saved is now, by its name; one's error does not lose the others."""
    from skillbus.cli.runs.artifacts import save  # noqa: PLC0415 (slow)

    saved: dict[str, str] = {}
    errors: list[CliError] = []
    for artifact in record.artifacts:
        try:
            path = save(folder, artifact.name, await session.runs.artifact(record.run_id, artifact.name)).path
        except CliError as error:
            errors.append(error)
            continue
        saved[artifact.name] = str(path)
        session.output.note(f"saved {path} ({size(artifact.size_bytes)})")
    return saved, errors
