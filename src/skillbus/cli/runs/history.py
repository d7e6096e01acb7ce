"""`skillbus runs`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from skillbus.cli.client.http_api import RUNS
from skillbus.cli.completion import complete_run, complete_skill
from skillbus.cli.errors import EXIT_FAILED
from skillbus.cli.options import check_skill_name
from skillbus.cli.runs.artifacts import SavedArtifacts, save_artifacts
from skillbus.cli.runs.runner import request_cancel
from skillbus.cli.runs.view import render_run, render_runs
from skillbus.cli.session import Session, remote_command
from skillbus.client.call import join_path
from skillbus.contracts.sandbox.run_history import RunFile, RunRecord, RunsListed

RunId = Annotated[
    str,
    typer.Argument(metavar="ID", help="Id of the run, or its beginning: see `runs list`.", autocompletion=complete_run),
]
Skill = Annotated[str | None, typer.Option("--skill", help="Only runs of this skill.", autocompletion=complete_skill)]
State = Annotated[str | None, typer.Option("--state", help="Only runs in this state: ok, failed, running, timeout, …")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Largest number of runs.")]
Save = Annotated[Path | None, typer.Option("--save", metavar="DIR", file_okay=False, help="Save the files of the run.")]

_PAGE_SIZE: Final = 200


@remote_command("skillbus runs list --skill git-commit --state failed")
async def list_runs(session: Session, skill: Skill = None, state: State = None, limit: Limit = 20) -> None:
    """List the runs of the last day, newest first."""
    filters = ({"skill": check_skill_name(skill)} if skill else {}) | ({"state": state} if state else {})
    found, _ = await session.connection.list_rows(
        RunsListed, RUNS, filters, lambda page: (page.runs, page.next), page_size=_PAGE_SIZE, limit=limit
    )
    document: dict[str, object] = {"runs": [record.model_dump(mode="json") for record in found]}
    session.output.show_result(document, lambda: render_runs(found, session.output.out.width))


@remote_command("skillbus runs show 4be4c61e --save out")
async def show_run(session: Session, run_id: RunId, save: Save = None) -> None:
    """Show a run with its limits and its usage, and save its files.

    Arguments and output of a run are not kept; its files are, for a day.
    """
    path, params = join_path(RUNS, run_id), session.connection.scope
    record = await session.connection.request(RunRecord, "GET", path, params=params)
    document = record.model_dump(mode="json")
    saved = SavedArtifacts({}, [])
    if save is not None:

        async def fetch_artifact(artifact: RunFile) -> bytes:
            place = join_path(path, "artifacts", *artifact.name.split("/"))
            return (await session.connection.send("GET", place)).content

        saved = await save_artifacts(session.output, save, record.artifacts, fetch_artifact)
        document |= {"saved": saved.paths, "errors": [error.document() for error in saved.errors]}
    session.output.show_result(document, lambda: render_run(record))
    for error in saved.errors if not session.output.as_json else ():
        session.output.print_error(error)
    if saved.errors:
        raise typer.Exit(EXIT_FAILED)


@remote_command("skillbus runs cancel 4be4c61e")
async def cancel_run(session: Session, run_id: RunId) -> None:
    """End a run."""
    cancelled = await request_cancel(session, run_id)
    message = "The run is being ended." if cancelled.ending else "The run had already ended."
    session.output.show_result(cancelled, lambda: message)
