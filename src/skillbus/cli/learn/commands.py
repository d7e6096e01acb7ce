"""`skillbus learn`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from skillbus.cli.client.http_api import LEARNING_JOBS, LEARNING_SOURCES
from skillbus.cli.completion import complete_job
from skillbus.cli.errors import LearningFailedError
from skillbus.cli.knowledge.options import By, build_headers
from skillbus.cli.options import build_request
from skillbus.cli.session import Session, remote_command
from skillbus.client.call import join_path
from skillbus.contracts.learner.learned import ReportPart
from skillbus.contracts.learner.learning_jobs import (
    LearningCancelled,
    LearningInputKind,
    LearningJob,
    LearningJobsListed,
    LearningSourcesListed,
    LearningStatus,
    LearningSwitch,
    ListLearningJobs,
)


class WhatToLearnFrom(StrEnum):
    """Kind of files on the command line."""

    AUTO = "auto"
    LOGS = "logs"
    TESTS = "tests"


Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="Logs, access logs, HAR, JUnit XML, pytest JSON, gz, zip; or folders."),
]
What = Annotated[WhatToLearnFrom, typer.Option("--what", help="Kind of the files. auto: the content decides.")]
Source = Annotated[
    str | None, typer.Option("--source", help="Origin of the files: a service, a log, a test suite. Default: default.")
]
Task = Annotated[str | None, typer.Option("--task", help="Id of the task that made them; the items name it.")]
Run = Annotated[str | None, typer.Option("--run", help="Id of the test run.")]
Commit = Annotated[str | None, typer.Option("--commit", help="Commit that was tested.")]
Branch = Annotated[str | None, typer.Option("--branch", help="Branch that was tested.")]
JobId = Annotated[
    str,
    typer.Argument(metavar="ID", help="Id of a job, or its beginning: see `learn jobs`.", autocompletion=complete_job),
]
Templates = Annotated[bool, typer.Option("--templates", help="Templates of the job's logs, the most severe first.")]
Runs = Annotated[bool, typer.Option("--runs", help="Last runs of the job's test suites.")]
Status = Annotated[LearningStatus | None, typer.Option("--status", help="Only jobs with this status.")]
OfWhat = Annotated[LearningInputKind | None, typer.Option("--what", help="Only jobs of files of this kind.")]
OfSource = Annotated[str | None, typer.Option("--source", help="Only jobs of this source.")]
OfTask = Annotated[str | None, typer.Option("--task", help="Only jobs of this task.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Largest number of jobs.")]
SourceName = Annotated[str | None, typer.Argument(metavar="SOURCE", help="Source to switch.", show_default=False)]
Enabled = Annotated[bool | None, typer.Option("--on/--off", help="Learn from the source, or not.", show_default=False)]

_PAGE_SIZE = 200


@remote_command("skillbus learn logs/ test-results/junit.xml --source payments --commit 4be4c61")
async def learn_files(  # noqa: PLR0913 (one parameter for each option)
    session: Session,
    paths: Paths,
    *,
    what: What = WhatToLearnFrom.AUTO,
    source: Source = None,
    task: Task = None,
    run: Run = None,
    commit: Commit = None,
    branch: Branch = None,
    by: By = None,
) -> None:
    """Learn from logs, traffic and test runs. What is found becomes pending items.

    The same files are learned from once. A file that cannot be read is reported, and the others are learned from.
    Exits with 1 if the job fails. Ctrl-C cancels the job. --json prints the report: `files` and `items`. Then review
    the items with `skillbus knowledge proposals`.
    """
    # Slow to import, and help pages need not wait for them.
    from skillbus.cli.learn.job_follower import follow_job, send_files  # noqa: PLC0415
    from skillbus.cli.learn.local_files import collect_files  # noqa: PLC0415

    kind = LearningInputKind.FILES if what is WhatToLearnFrom.AUTO else LearningInputKind(what.value)
    options = {"source": source, "task": task, "run": run, "commit": commit, "branch": branch}
    given = {name: value for name, value in options.items() if value}
    started = await send_files(session, kind, collect_files(paths), given, build_headers(by))
    if started.job is None:
        raise LearningFailedError(
            started.skipped or "nothing is learned", "`skillbus learn sources` shows the switches."
        )
    if started.repeated:
        session.output.print_note("The project has learned from these files before.")
    job = await follow_job(session, started.job, build_headers(by))
    await _show_report(session, job, is_repeated=started.repeated)


@remote_command("skillbus learn jobs --status failed")
async def list_jobs(
    session: Session,
    status: Status = None,
    what: OfWhat = None,
    source: OfSource = None,
    task: OfTask = None,
    limit: Limit = 20,
) -> None:
    """List the jobs, newest first."""
    from skillbus.cli.learn.view import render_jobs  # noqa: PLC0415

    filters = build_request(ListLearningJobs, {"status": status, "what": what, "source": source, "task": task})
    params = filters.model_dump(mode="json", exclude_unset=True)
    found, _ = await session.connection.list_rows(
        LearningJobsListed,
        LEARNING_JOBS,
        params,
        lambda page: (page.jobs, page.next),
        page_size=_PAGE_SIZE,
        limit=limit,
    )
    document: dict[str, object] = {"jobs": [job.model_dump(mode="json") for job in found]}
    session.output.show_result(document, lambda: render_jobs(found))


@remote_command("skillbus learn show 018f3a2c")
async def show_job(session: Session, job_id: JobId, *, templates: Templates = False, runs: Runs = False) -> None:
    """Show a job with its report: the result of each file, and the items with their evidence.

    --templates shows the templates of its logs instead, --runs the last runs of its test suites.
    """
    if templates or runs:
        await _show_part(session, job_id, ReportPart.TEMPLATES if templates else ReportPart.SUITES)
        return
    path = join_path(LEARNING_JOBS, job_id)
    await _show_report(
        session, await session.connection.request(LearningJob, "GET", path, params=session.connection.scope)
    )


@remote_command("skillbus learn cancel 018f3a2c")
async def cancel_job(session: Session, job_id: JobId, by: By = None) -> None:
    """Cancel a job. It stores nothing then."""
    path, params = join_path(LEARNING_JOBS, job_id), session.connection.scope
    cancelled = await session.connection.request(
        LearningCancelled, "DELETE", path, params=params, headers=build_headers(by)
    )
    message = "The job is cancelled." if cancelled.cancelled else "The job had already ended."
    session.output.show_result(cancelled, lambda: message)


@remote_command("skillbus learn sources payments --off")
async def manage_sources(session: Session, source: SourceName = None, enabled: Enabled = None, by: By = None) -> None:
    """List the sources from which nothing is learned, or switch one on or off."""
    from skillbus.cli.learn.view import render_sources  # noqa: PLC0415

    if (source is None) != (enabled is None):
        raise typer.BadParameter("give a source with --on or --off, or neither", param_hint="SOURCE")
    connection = session.connection
    if source is None:
        found, _ = await connection.list_rows(
            LearningSourcesListed, LEARNING_SOURCES, {}, lambda page: (page.sources, page.next), page_size=_PAGE_SIZE
        )
        document: dict[str, object] = {"sources": [one.model_dump(mode="json") for one in found]}
        session.output.show_result(document, lambda: render_sources(found))
        return
    path, params, body = join_path(LEARNING_SOURCES, source), connection.scope, {"enabled": enabled}
    switch = await connection.request(LearningSwitch, "PUT", path, params=params, json=body, headers=build_headers(by))
    session.output.show_result(switch, lambda: f"{switch.source}: learning is {'on' if switch.enabled else 'off'}")


async def _show_part(session: Session, job_id: str, part: ReportPart) -> None:
    """Show one part of a job's report."""
    from skillbus.cli.learn.job_follower import fetch_report  # noqa: PLC0415
    from skillbus.cli.learn.view import render_suites, render_templates  # noqa: PLC0415

    report = await fetch_report(session.connection, job_id, part)
    render = render_templates if part is ReportPart.TEMPLATES else render_suites
    session.output.show_result(report.model_dump(mode="json", include={"job", part.value}), lambda: render(report))


async def _show_report(session: Session, job: LearningJob, *, is_repeated: bool = False) -> None:
    """Show a job and its report. Exits with 1 if the job failed."""
    from skillbus.cli.learn.job_follower import fetch_report  # noqa: PLC0415
    from skillbus.cli.learn.view import render_report  # noqa: PLC0415

    report = await fetch_report(session.connection, job.id)
    known: dict[str, object] = {"job": job.model_dump(mode="json"), "repeated": is_repeated}
    document = {**known, **report.model_dump(mode="json", include={"files", "items", "model_use"})}
    session.output.show_result(document, lambda: render_report(report, is_repeated=is_repeated))
    if job.status is LearningStatus.FAILED:
        session.fail(LearningFailedError(job.error or "", "Correct the cause and learn from the files again."))
