"""Work of `skillbus learn`: send files, follow or cancel the job, and fetch its report."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from skillbus.cli.client.http_api import IMPORT_S, LEARNING, LEARNING_JOBS, parse_problem, parse_reply
from skillbus.cli.errors import LocalFileError, NoAnswerError, ProblemError, StoppedError
from skillbus.cli.output import ShowBytes
from skillbus.client.call import join_path
from skillbus.client.operations.learning import UploadedFile, build_form
from skillbus.contracts.learner.learned import ReportPart
from skillbus.contracts.learner.learning_jobs import (
    LearningCancelled,
    LearningInputKind,
    LearningJob,
    LearningPhase,
    LearningReport,
    LearningStarted,
    LearningStatus,
)

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection
    from skillbus.cli.session import Session

_ENDED: Final = frozenset({LearningStatus.DONE, LearningStatus.FAILED, LearningStatus.CANCELLED})
_SILENCE_S: Final = 60.0
"""Longest pause while a job is followed: the server sends a state every 15 s."""
_PATIENCE_S: Final = 60.0
"""Time for services that restart: the job continues after their restart."""
_PAUSE_S: Final = 1.0
_CANCEL_S: Final = 15.0
_PAGE: Final = 200


async def send_files(
    session: "Session",
    kind: LearningInputKind,
    files: Mapping[str, Path],
    options: Mapping[str, str],
    headers: Mapping[bytes, bytes],
) -> LearningStarted:
    """Upload files and start a job for them.

    Raises:
        LocalFileError: A file cannot be read.
        ProblemError, NoAnswerError: The server refused them, or the connection broke off.
    """
    total = sum(path.stat().st_size for path in files.values())
    with session.output.show_bytes("sending", total) as show_bytes:
        form = build_form({name: UploadedFile(path, show_bytes.add) for name, path in files.items()})
        try:
            return await session.connection.request(
                LearningStarted,
                "POST",
                f"{LEARNING}/{kind.value}",
                params={**options, **session.connection.scope},
                files=form,
                headers=headers,
                wait_s=IMPORT_S,
            )
        except OSError as error:
            raise LocalFileError.from_os_error(error.filename or "a file", error) from error


async def follow_job(session: "Session", job: LearningJob, headers: Mapping[bytes, bytes]) -> LearningJob:
    """Wait until a job has ended, and return it.

    Raises:
        StoppedError: Ctrl-C, which cancels the job.
        ProblemError, NoAnswerError: The server did not answer for a minute.
    """
    seen_at = monotonic()
    with session.output.show_bytes("waiting", job.progress.total_bytes) as show_bytes:
        try:
            while job.status not in _ENDED:
                try:
                    job = await _follow_once(session.connection, job, show_bytes)
                    seen_at = monotonic()
                except (ProblemError, NoAnswerError) as error:
                    is_final = isinstance(error, ProblemError) and not error.problem.get("retryable")
                    if is_final or monotonic() - seen_at > _PATIENCE_S:
                        raise
                    await asyncio.sleep(_PAUSE_S)
        except asyncio.CancelledError:
            session.output.print_note("interrupted: the job is being cancelled")
            async with asyncio.timeout(_CANCEL_S):
                path, params = join_path(LEARNING_JOBS, job.id), session.connection.scope
                await session.connection.request(LearningCancelled, "DELETE", path, params=params, headers=headers)
            raise StoppedError(f"the job {job.id} is cancelled", "Nothing of it was stored.") from None
    return job


async def fetch_report(connection: "ApiConnection", job_id: str, part: ReportPart | None = None) -> LearningReport:
    """Return the whole report of a job, or one part of it."""
    path, pages = join_path(LEARNING_JOBS, job_id, "report"), list[LearningReport]()
    wanted = {**connection.scope, **({} if part is None else {"part": part.value})}
    following: int | None = 0
    while following is not None:
        params = {"after": str(following), "limit": str(_PAGE), **wanted}
        pages.append(await connection.request(LearningReport, "GET", path, params=params))
        following = pages[-1].next
    last = pages[-1]
    return LearningReport(
        job=last.job,
        files=tuple(file for page in pages for file in page.files),
        items=tuple(item for page in pages for item in page.items),
        templates=tuple(template for page in pages for template in page.templates),
        suites=tuple(suite for page in pages for suite in page.suites),
        totals=last.totals,
        model_use=last.model_use,
    )


async def _follow_once(connection: "ApiConnection", job: LearningJob, show_bytes: ShowBytes) -> LearningJob:
    """Follow a job until its end, or until the stream breaks off. Return its last known state."""
    path, params = join_path(LEARNING_JOBS, job.id, "events"), connection.scope
    async with connection.stream("GET", path, params=params, silence_s=_SILENCE_S) as response:
        event = ""
        async for line in response.aiter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                event = value
            elif field == "data" and event == "error":
                raise parse_problem(value.encode(), response)
            elif field == "data":
                job = parse_reply(LearningJob, value, response)
                progress = job.progress
                is_reading = progress.phase in {LearningPhase.FETCHING, LearningPhase.READING}
                if progress.phase is not LearningPhase.ENDED:
                    show_bytes.show(progress.phase.value, progress.bytes_done if is_reading else None)
    return job
