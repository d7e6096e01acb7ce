"""Operations on jobs that learn from logs, traffic and test runs."""

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import BinaryIO, Final

from skillbus.client.call import SentParts
from skillbus.client.operation import ReplyParser, StateEvents, custom_operation, json_operation, stream_operation
from skillbus.client.operations.runs import SILENCE_S
from skillbus.client.route import HttpRoute, PreparedRequest
from skillbus.contracts.learner.learning_jobs import (
    CancelLearning,
    GetLearningReport,
    LearningCancelled,
    LearningJob,
    LearningJobSelector,
    LearningJobsListed,
    LearningReport,
    LearningSourcesListed,
    LearningStarted,
    LearningSwitch,
    ListLearningJobs,
    ListLearningSources,
    SetLearningSource,
)

_LEARN: Final = "/api/learn"
_JOB: Final = "/api/learn/jobs/{id}"
_UPLOAD_S: Final = 600.0
_OPTIONS: Final = ("source", "task", "run", "commit", "branch", "project")
_ACTOR: Final = ("actor",)
_BINARY: Final = "application/octet-stream"


class UploadedFile:
    """File that is opened when its turn has come, and read from its start by each attempt to send it."""

    def __init__(self, path: Path, on_read: Callable[[int], None] | None = None) -> None:
        """Send the file at `path`. `on_read` is called with the number of bytes of each part."""
        self._path = path
        self._on_read = on_read
        self._file: BinaryIO | None = None

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; none at the end, which closes the file. Raises OSError."""
        if self._file is None:
            self._file = self._path.open("rb")
        data = self._file.read(size)
        if not data:
            self._file.close()
            self._file = None
        elif self._on_read is not None:
            self._on_read(len(data))
        return data


FormFiles = Mapping[str, tuple[str, bytes | BinaryIO, str]]


def build_form(files: Mapping[str, bytes | PathLike[str] | UploadedFile]) -> FormFiles:
    """Return the files of a form. Their names are those of the job."""
    contents = {
        name: content if isinstance(content, bytes | UploadedFile) else UploadedFile(Path(content))
        for name, content in files.items()
    }
    # httpx only reads them, which their type does not say.
    return {f"file{number}": (name, content, _BINARY) for number, (name, content) in enumerate(contents.items())}  # type: ignore[misc]


def _prepare_upload(
    files: Mapping[str, bytes | PathLike[str]],
    *,
    source: str | None = None,
    task: str | None = None,
    run: str | None = None,
    commit: str | None = None,
    branch: str | None = None,
    project: str | None = None,
    actor: str | None = None,
) -> PreparedRequest:
    fields = {"source": source, "task": task, "run": run, "commit": commit, "branch": branch}
    return PreparedRequest({**fields, "project": project, "actor": actor}, SentParts(files=build_form(files)))


def _prepare_follow(id: str, *, project: str | None = None) -> PreparedRequest:  # noqa: A002 (as in the contract)
    return PreparedRequest({"id": id, "project": project})


def _make_upload_route(name: str) -> HttpRoute:
    return HttpRoute(
        "POST", f"{_LEARN}/{name}", in_query=_OPTIONS, in_header=_ACTOR, timeout_s=_UPLOAD_S, is_idempotent=True
    )


class LearningOperations:
    """Learning from logs, traffic and test runs: jobs, their reports, and sources that are switched off."""

    learn_from_logs = custom_operation(_make_upload_route("logs"), _prepare_upload, ReplyParser(LearningStarted))
    """Learn from logs, access logs and HAR files: bytes or paths by name. The same files start one job."""
    learn_from_tests = custom_operation(_make_upload_route("tests"), _prepare_upload, ReplyParser(LearningStarted))
    """Learn from reports of test runs. `run`, `commit` and `branch` say what was tested."""
    learn_from_files = custom_operation(_make_upload_route("files"), _prepare_upload, ReplyParser(LearningStarted))
    """Learn from logs and reports of test runs in one job. The content of each file decides."""
    list_learning_jobs = json_operation("GET", f"{_LEARN}/jobs", ListLearningJobs, LearningJobsListed)
    """List jobs, newest first. `next` is the `after` of the next page."""
    get_learning_job = json_operation("GET", _JOB, LearningJobSelector, LearningJob)
    """Return a job with its progress."""
    follow_learning_job = stream_operation(
        HttpRoute("GET", f"{_JOB}/events", timeout_s=SILENCE_S), _prepare_follow, StateEvents(LearningJob)
    )
    """Follow a job: yield it at each step, last at its end."""
    get_learning_report = json_operation("GET", f"{_JOB}/report", GetLearningReport, LearningReport)
    """Return one page of a job's report: the result of each file, then the items with their evidence."""
    cancel_learning = json_operation("DELETE", _JOB, CancelLearning, LearningCancelled, in_header=_ACTOR)
    """Cancel a job. It stores nothing then."""
    list_learning_sources = json_operation("GET", f"{_LEARN}/sources", ListLearningSources, LearningSourcesListed)
    """List the sources from which nothing is learned."""
    set_learning_source = json_operation(
        "PUT",
        f"{_LEARN}/sources/{{source}}",
        SetLearningSource,
        LearningSwitch,
        in_query=("project",),
        in_header=_ACTOR,
    )
    """Switch learning from a source on or off."""
