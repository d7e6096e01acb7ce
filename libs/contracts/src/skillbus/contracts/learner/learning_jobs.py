"""Jobs that learn from logs, traffic and test runs: requests about them, the events that start them, their progress.

A job reads its files and stores what it learned as pending items. Its files are deleted when it ends.
"""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field, StringConstraints, model_validator

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import CALLERS, Endpoint, Event, Feed
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner import SERVICE
from skillbus.contracts.learner.knowledge import ANYBODY, EXAMPLE_ID, Actor, Instant, KnowledgeId
from skillbus.contracts.learner.learned import LearnedContents, LearnedKind, ReportPart
from skillbus.contracts.learner.proposals import ReportedItem
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, Content, Message, Project, ProjectMessage

MAX_FILES: Final = 1_000
"""Most files of one job."""
MAX_INLINE_BYTES: Final = 256 * 1024
"""Most bytes of the files of one request that it holds itself. Larger files go through the bucket `learning`."""
MAX_TEXT_CHARACTERS: Final = 128 * 1024
DEFAULT_SOURCE: Final = "default"

LearningSource = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, strip_whitespace=True, pattern=r"^[^/\x00-\x1f\x7f]+$"),
    Field(description="Origin of the files: the name of a service, of a log or of a test suite."),
]
LearningTask = Annotated[
    str,
    StringConstraints(max_length=200, strip_whitespace=True),
    WITHOUT_NUL,
    Field(description="Id of the task that made the files. It becomes the `source_ref` of the items."),
]
_RunText = Annotated[str, StringConstraints(max_length=200, strip_whitespace=True), WITHOUT_NUL]


class LearningInputKind(StrEnum):
    """Kind of the files of a job."""

    LOGS = "logs"
    """Logs, access logs and HAR files."""
    TESTS = "tests"
    """Reports of test runs."""
    FILES = "files"
    """Files of both kinds. The format of each file decides."""


class LearningStatus(StrEnum):
    """Status of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class LearningPhase(StrEnum):
    """Step of a job."""

    WAITING = "waiting"
    FETCHING = "fetching"
    """Its files are fetched from the object store."""
    READING = "reading"
    """Its files are read."""
    REFINING = "refining"
    """A chat model reads what was found."""
    STORING = "storing"
    """Items are compared with what is known, and stored."""
    ENDED = "ended"


class LearningFile(Message):
    """File to learn from."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=300), WITHOUT_NUL]
    """Name or relative path, as evidence shows it."""
    content: Content
    """The bytes, inline or as an object of the bucket `learning`. The learner deletes the object."""


class RunContext(Message):
    """Test run that made the files, as far as they do not say it."""

    run: _RunText = ""
    """Id of the run."""
    commit: _RunText = ""
    """Commit that was tested."""
    branch: _RunText = ""


class StartLearning(ProjectMessage):
    """Files to learn from."""

    what: LearningInputKind = LearningInputKind.FILES
    source: LearningSource = DEFAULT_SOURCE
    files: Annotated[tuple[LearningFile, ...], Field(min_length=1, max_length=MAX_FILES)]
    task: LearningTask = ""
    context: RunContext = RunContext()
    enable_learning: bool = True
    """False learns nothing."""
    actor: Actor = ANYBODY


class LearningProgress(Message):
    """Progress of a job."""

    phase: LearningPhase = LearningPhase.WAITING
    files_done: int = Field(default=0, ge=0)
    total_files: int = Field(default=0, ge=0)
    bytes_done: int = Field(default=0, ge=0)
    total_bytes: int = Field(default=0, ge=0)
    items: int = Field(default=0, ge=0)
    """Number of items that were found so far."""


class LearningJob(Message):
    """Job that learns from files."""

    id: KnowledgeId
    project: Project = DEFAULT_PROJECT
    what: LearningInputKind
    source: LearningSource
    task: LearningTask = ""
    context: RunContext = RunContext()
    digest: str
    """SHA-256 of the source, the context and the contents of the files. A project learns once from each digest."""
    status: LearningStatus
    progress: LearningProgress = LearningProgress()
    new_items: int = Field(default=0, ge=0)
    """Number of items that the job added as pending ones."""
    known_items: int = Field(default=0, ge=0)
    """Number of items that were known before."""
    error: str | None = None
    """Reason of a failure, and what to do."""
    created_at: Instant
    started_at: Instant | None = None
    ended_at: Instant | None = None
    actor: Actor = ANYBODY


class LearningStarted(Message):
    """Result of a request to learn."""

    job: LearningJob | None = None
    """The job. Absent if nothing is learned."""
    repeated: bool = False
    """True if the project has learned from the same files before, or does so now. `job` is the first job then."""
    skipped: str | None = None
    """Reason why nothing is learned."""


class LearningJobSelector(ProjectMessage):
    """Id of the wanted job."""

    id: KnowledgeId


class CancelLearning(LearningJobSelector):
    """Job to cancel."""

    actor: Actor = ANYBODY


class LearningCancelled(Message):
    """Result of a cancellation."""

    id: KnowledgeId
    cancelled: bool
    """False if the job had ended before."""


class ListLearningJobs(ProjectMessage):
    """Query for one page of jobs, newest first."""

    limit: int = Field(default=50, ge=1, le=200)
    after: KnowledgeId | None = None
    """`next` of the previous page."""
    status: LearningStatus | None = None
    what: LearningInputKind | None = None
    source: LearningSource | None = None
    task: LearningTask | None = None


class LearningJobsListed(Message):
    """One page of jobs."""

    jobs: tuple[LearningJob, ...]
    next: str | None = None
    """Value of `after` for the next page. Absent on the last page."""


class GetLearningReport(LearningJobSelector):
    """Query for one page of a job's report."""

    part: ReportPart | None = None
    """Part that is wanted. Absent means the files, then the items."""
    kind: LearnedKind | None = None
    """Only items of this kind."""
    after: int = Field(default=0, ge=0)
    """Number of entries to leave out: `next` of the previous page."""
    limit: int = Field(default=200, ge=1, le=1_000)


class LearningReport(LearnedContents):
    """One page of a job's report. Before the job is done it has no entries."""

    job: LearningJob
    items: tuple[ReportedItem, ...] = ()
    next: int | None = None
    """Value of `after` for the next page. Absent on the last page."""


class SetLearningSource(ProjectMessage):
    """Source to switch on or off."""

    source: LearningSource
    enabled: bool
    actor: Actor = ANYBODY


class LearningSwitch(Message):
    """State of a source."""

    source: LearningSource
    enabled: bool
    at: Instant | None = None
    """Time of the last change. Absent for a source that was never switched off."""
    by: Actor = ANYBODY


class ListLearningSources(ProjectMessage):
    """Query for one page of the sources that are switched off, ordered by name."""

    limit: int = Field(default=100, ge=1, le=200)
    after: LearningSource | None = None


class LearningSourcesListed(Message):
    """One page of the sources that are switched off. All others are on."""

    sources: tuple[LearningSwitch, ...]
    next: str | None = None


class LearningTrigger(ProjectMessage):
    """Files that something else made, as text or as files."""

    source: LearningSource = DEFAULT_SOURCE
    enable_learning: bool = False
    """True learns from the files, unless the source is switched off."""
    text: Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS), WITHOUT_NUL] = ""
    """Content of one file."""
    name: Annotated[str, StringConstraints(max_length=300), WITHOUT_NUL] = ""
    """Name of the file with this content. Absent means the id in the subject."""
    files: Annotated[tuple[LearningFile, ...], Field(max_length=MAX_FILES)] = ()
    context: RunContext = RunContext()

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if not self.text and not self.files:
            raise ValueError("gives neither `text` nor `files`: give one of them")
        return self


class LogParsed(LearningTrigger):
    """Logs or traffic that a parser of logs has read."""

    task: LearningTask = ""
    """Absent means the id in the subject."""


class RunFinished(LearningTrigger):
    """Reports of a test run that has ended."""

    task: LearningTask = ""
    """Absent means the id of the run in the subject."""


class LearningAdvanced(Message):
    """Progress of a job that is under way, at most twice a second, and its end."""

    id: KnowledgeId
    project: Project
    status: LearningStatus
    progress: LearningProgress


START_LEARNING: Final = Endpoint(
    service=SERVICE,
    name="start_learning",
    request=StartLearning,
    reply=LearningStarted,
    summary="Start a job that learns from files. The same files are learned from once in a project.",
    stores_data=True,
    example={
        "what": "logs",
        "source": "payments",
        "files": [
            {
                "name": "payments.log",
                "content": {
                    "size_bytes": 22,
                    "sha256": "f777145e424ada2479434acb01efc884cc427c2efb8ffb2ea2de80144b9dcb3a",
                    "inline": "RVJST1IgY2FyZCByZWZ1c2VkIDE3Cg==",
                },
            }
        ],
    },
    act=AuditedAct(made="job.id", details=("what",)),
)
GET_LEARNING_JOB: Final = Endpoint(
    service=SERVICE,
    name="get_learning_job",
    request=LearningJobSelector,
    reply=LearningJob,
    summary="Return a job with its progress.",
    is_read=True,
    raises=(ErrorCode.NOT_FOUND,),
    example={"id": EXAMPLE_ID},
)
LIST_LEARNING_JOBS: Final = Endpoint(
    service=SERVICE,
    name="list_learning_jobs",
    request=ListLearningJobs,
    reply=LearningJobsListed,
    summary="List the jobs of a project, newest first.",
    is_read=True,
    example={"limit": 20},
)
CANCEL_LEARNING: Final = Endpoint(
    service=SERVICE,
    name="cancel_learning",
    request=CancelLearning,
    reply=LearningCancelled,
    summary="Cancel a job, on whichever replica it runs. It stores no item then.",
    raises=(ErrorCode.NOT_FOUND,),
    example={"id": EXAMPLE_ID},
    act=AuditedAct(subject="id", details=("cancelled",)),
)
GET_LEARNING_REPORT: Final = Endpoint(
    service=SERVICE,
    name="get_learning_report",
    request=GetLearningReport,
    reply=LearningReport,
    summary="Return one page of a job's report: results of files, items with their evidence, templates, test suites.",
    is_read=True,
    raises=(ErrorCode.NOT_FOUND,),
    example={"id": EXAMPLE_ID, "limit": 100},
)
SET_LEARNING_SOURCE: Final = Endpoint(
    service=SERVICE,
    name="set_learning_source",
    request=SetLearningSource,
    reply=LearningSwitch,
    summary="Switch learning from a source on or off. Jobs that have started go on.",
    example={"source": "payments", "enabled": False},
    act=AuditedAct(subject="source", details=("enabled",)),
)
LIST_LEARNING_SOURCES: Final = Endpoint(
    service=SERVICE,
    name="list_learning_sources",
    request=ListLearningSources,
    reply=LearningSourcesListed,
    summary="List the sources of a project from which nothing is learned.",
    is_read=True,
    example={"limit": 20},
)
LOG_PARSED: Final = Event(
    CALLERS,
    "log",
    "parsed",
    LogParsed,
    "Logs were parsed. The learner learns from them if `enable_learning` is true.",
)
TEST_FINISHED: Final = Event(
    CALLERS,
    "test",
    "finished",
    RunFinished,
    "A test run ended. The learner learns from its reports if `enable_learning` is true.",
)
LEARNING_ADVANCED: Final = Feed(
    service=SERVICE,
    entity="learning",
    fact="advanced",
    body=LearningAdvanced,
    summary="Progress of a job while it lasts, and its end.",
)
