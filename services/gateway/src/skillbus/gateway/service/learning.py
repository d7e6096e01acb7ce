"""Learning from logs, traffic and test runs: jobs, their reports and progress, and sources that are switched off."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Path, Query, Request, Response
from starlette.requests import ClientDisconnect

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.learner.knowledge import EXAMPLE_ID, KnowledgeId
from skillbus.contracts.learner.learned import LearnedKind, ReportPart
from skillbus.contracts.learner.learning_jobs import (
    CANCEL_LEARNING,
    GET_LEARNING_JOB,
    GET_LEARNING_REPORT,
    LIST_LEARNING_JOBS,
    LIST_LEARNING_SOURCES,
    SET_LEARNING_SOURCE,
    START_LEARNING,
    CancelLearning,
    GetLearningReport,
    LearningCancelled,
    LearningInputKind,
    LearningJob,
    LearningJobSelector,
    LearningJobsListed,
    LearningReport,
    LearningSource,
    LearningSourcesListed,
    LearningStarted,
    LearningSwitch,
    ListLearningJobs,
    ListLearningSources,
    SetLearningSource,
)
from skillbus.contracts.message import DEFAULT_PROJECT, Message
from skillbus.gateway.domain.learning.job_follower import ENDED, JobFollower
from skillbus.gateway.domain.learning.uploader import FORM, LearningOptions, LearningUploader
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import Documented, DocumentedRouter, ProjectInQuery
from skillbus.gateway.service.event_stream import EVENT_STREAM, PartStream, StateWriter, open_part_stream
from skillbus.gateway.service.knowledge.parameters import ActorInHeader, choose_actor

_LEARN: Final = "/api/learn"
_JOBS: Final = f"{_LEARN}/jobs"
_JOB: Final = f"{_JOBS}/{{id}}"
_SOURCES: Final = f"{_LEARN}/sources"
JobInPath = Annotated[KnowledgeId, Path(alias="id", description="Id of the job.", examples=[EXAMPLE_ID])]
SourceInPath = Annotated[LearningSource, Path(examples=["payments"])]


class SwitchBody(Message):
    """State of a source."""

    enabled: bool
    """False learns nothing from it any more."""


@dataclass(frozen=True, slots=True)
class LearningRoutes:
    """Handlers of learning."""

    caller: BusCaller
    uploader: LearningUploader
    follower: JobFollower

    async def learn_from_logs(
        self, request: Request, options: Annotated[LearningOptions, Query()], actor: ActorInHeader = None
    ) -> LearningStarted:
        """Learn from logs, access logs and HAR files. What is found becomes pending items.

        The body is a form with up to 1000 files, or one file with its `name` in the query; gz and zip are unpacked. The
        reply comes when the files are stored; `job` says how to follow the work. The same files start one job.
        """
        return await self._start(LearningInputKind.LOGS, request, options, actor)

    async def learn_from_tests(
        self, request: Request, options: Annotated[LearningOptions, Query()], actor: ActorInHeader = None
    ) -> LearningStarted:
        """Learn from reports of test runs: JUnit XML, pytest-json-report. The last 50 runs of a source count.

        The body is the same as for logs.
        """
        return await self._start(LearningInputKind.TESTS, request, options, actor)

    async def learn_from_files(
        self, request: Request, options: Annotated[LearningOptions, Query()], actor: ActorInHeader = None
    ) -> LearningStarted:
        """Learn from logs and reports of test runs in one job. The content of each file decides.

        The body is the same as for logs.
        """
        return await self._start(LearningInputKind.FILES, request, options, actor)

    async def list_learning_jobs(self, page: Annotated[ListLearningJobs, Query()]) -> LearningJobsListed:
        """List jobs, newest first. `next` is the `after` of the next page."""
        return await self.caller.call(LIST_LEARNING_JOBS, page)

    async def get_learning_job(self, job: JobInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> LearningJob:
        """Return a job with its progress."""
        return await self.caller.call(GET_LEARNING_JOB, LearningJobSelector(project=project, id=job))

    async def get_learning_report(
        self,
        job: JobInPath,
        project: ProjectInQuery = DEFAULT_PROJECT,
        part: Annotated[
            ReportPart | None, Query(description="Part that is wanted. Default: files, then items.")
        ] = None,
        kind: Annotated[LearnedKind | None, Query(description="Only items of this kind.")] = None,
        after: Annotated[int, Query(ge=0, description="`next` of the previous page.")] = 0,
        limit: Annotated[int, Query(ge=1, le=1_000, description="Most entries of the page.")] = 200,
    ) -> LearningReport:
        """Return one page of a job's report: the result of each file, then the items with their evidence.

        `part` gives one part alone, also the templates of its logs and the last runs of its test suites.
        """
        wanted = GetLearningReport(project=project, id=job, part=part, kind=kind, after=after, limit=limit)
        return await self.caller.call(GET_LEARNING_REPORT, wanted)

    async def follow_learning_job(
        self, job: JobInPath, request: Request, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Follow a job as Server-Sent Events: `progress` with the job at each step, and last `ended` with the job.

        If the learner is away in between, the last event is `error` with a problem document.
        """
        states = self.follower.follow_job(LearningJobSelector(project=project, id=job))
        return await open_part_stream(states, StateWriter(request.url.path, lambda job: job.status in ENDED))

    async def cancel_learning(
        self, job: JobInPath, project: ProjectInQuery = DEFAULT_PROJECT, actor: ActorInHeader = None
    ) -> LearningCancelled:
        """Cancel a job. It stores nothing then."""
        return await self.caller.call(
            CANCEL_LEARNING, CancelLearning(project=project, id=job, actor=choose_actor(actor))
        )

    async def list_learning_sources(self, page: Annotated[ListLearningSources, Query()]) -> LearningSourcesListed:
        """List the sources from which nothing is learned."""
        return await self.caller.call(LIST_LEARNING_SOURCES, page)

    async def set_learning_source(
        self,
        source: SourceInPath,
        body: SwitchBody,
        project: ProjectInQuery = DEFAULT_PROJECT,
        actor: ActorInHeader = None,
    ) -> LearningSwitch:
        """Switch learning from a source on or off."""
        wanted = SetLearningSource(project=project, source=source, enabled=body.enabled, actor=choose_actor(actor))
        return await self.caller.call(SET_LEARNING_SOURCE, wanted)

    async def _start(
        self, what: LearningInputKind, request: Request, options: LearningOptions, actor: str | None
    ) -> LearningStarted:
        kind, body = request.headers.get("content-type", ""), request.stream()
        try:
            return await self.uploader.start_learning(what, options, kind, body, choose_actor(actor))
        except ClientDisconnect as error:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The body is incomplete.") from error


_FILE: Final = {"type": "string", "contentMediaType": "application/octet-stream"}
_FILES: Final[dict[str, object]] = {
    "requestBody": {
        "required": True,
        "content": {
            FORM: {
                "schema": {
                    "type": "object",
                    "properties": {"file": {"type": "array", "items": _FILE, "description": "Files with their names."}},
                    "required": ["file"],
                },
            },
            "application/octet-stream": {
                "schema": {**_FILE, "description": "One file. Its `name` is in the query."},
                "example": "2026-01-02 03:04:05 ERROR payments: card refused 17\n",
            },
        },
    }
}
"""Documentation of a body that the handler reads itself."""
_EVENTS: Final[Documented] = {
    200: {
        "content": {
            EVENT_STREAM: {
                "schema": {"type": "string", "description": "`progress`, then `ended`, with a `LearningJob`."}
            }
        }
    }
}


def add_learning_routes(router: DocumentedRouter, routes: LearningRoutes) -> None:
    """Add the routes of learning."""
    for name, handler in (
        ("logs", routes.learn_from_logs),
        ("tests", routes.learn_from_tests),
        ("files", routes.learn_from_files),
    ):
        router.add("POST", f"{_LEARN}/{name}", Role.EDITOR, handler, START_LEARNING.errors, status=202, body=_FILES)
    router.add("GET", _JOBS, Role.READER, routes.list_learning_jobs, LIST_LEARNING_JOBS.errors)
    router.add("GET", _JOB, Role.READER, routes.get_learning_job, GET_LEARNING_JOB.errors)
    router.add("GET", f"{_JOB}/report", Role.READER, routes.get_learning_report, GET_LEARNING_REPORT.errors)
    events = router.with_replies(_EVENTS).for_streams()
    events.add(
        "GET",
        f"{_JOB}/events",
        Role.READER,
        routes.follow_learning_job,
        GET_LEARNING_JOB.errors,
        response=PartStream,
    )
    router.add("DELETE", _JOB, Role.EDITOR, routes.cancel_learning, CANCEL_LEARNING.errors)
    router.add("GET", _SOURCES, Role.READER, routes.list_learning_sources, LIST_LEARNING_SOURCES.errors)
    switch: dict[str, object] = {"enabled": False}
    router.add(
        "PUT",
        f"{_SOURCES}/{{source}}",
        Role.EDITOR,
        routes.set_learning_source,
        SET_LEARNING_SOURCE.errors,
        example=switch,
    )
