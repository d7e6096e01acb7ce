"""Records of runs, live output, and cancellation."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import AwareDatetime, Field

from skillbus.contracts.endpoint import Endpoint, Feed
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import DEFAULT_PROJECT, Blob, Message, Project, ProjectMessage, SkillName
from skillbus.contracts.sandbox import SERVICE
from skillbus.contracts.sandbox.skill_runs import RunId, RunLimits, RunUsage

FEED_BYTES: Final = 16 * 1024
"""Most output of one message of a feed, in bytes."""


class RunState(StrEnum):
    """State of a run: the values of `RunStatus`, and three more."""

    RUNNING = "running"
    """The run waits for a slot or runs."""
    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CPU = "cpu"
    MEMORY = "memory"
    OUTPUT = "output"
    INODES = "inodes"
    CANCELLED = "cancelled"
    KILLED = "killed"
    NOT_RUN = "not_run"
    """The run was accepted but could not start. `detail` holds the error code that its caller got."""
    LOST = "lost"
    """The time of the run is over without a result: its sandbox is gone."""


class OutputStream(StrEnum):
    """Stream that a program prints to."""

    STDOUT = "stdout"
    STDERR = "stderr"


class RunEventKind(StrEnum):
    """Kind of a message of a run's feed."""

    BEGUN = "begun"
    """The run was accepted. It may wait for a slot."""
    OUTPUT = "output"
    ENDED = "ended"
    """The run ended. This is the last message."""


class RunEvent(Message):
    """Message about a run that is going on."""

    run_id: RunId
    number: int
    """0, 1, 2 and so on. A missing number means a lost message; the reply of the run has the whole output anyway."""
    kind: RunEventKind
    stream: OutputStream | None = None
    """Stream of the output. Only for `output`."""
    data: Blob = b""
    """Printed bytes, at most 16 KiB. They may start or end inside a UTF-8 character. Only for `output`."""
    state: RunState | None = None
    """Final state of the run. Only for `ended`."""


class RunSelector(ProjectMessage):
    """Id of the wanted run."""

    run_id: RunId


class RunCancelled(Message):
    """Result of a cancellation."""

    run_id: RunId
    ending: bool
    """True if the run is being ended; its caller gets the output so far. False if it had already ended."""


class RunFile(Message):
    """File that a run left."""

    name: str
    size_bytes: int


class RunRecord(Message):
    """Record of a run. It never holds arguments or output. `RunResult` explains the fields that both have; those of the
    result are absent before the end of the run."""

    run_id: RunId
    project: Project = DEFAULT_PROJECT
    skill: SkillName
    content_digest: str
    action: str
    state: RunState
    began_at: datetime
    """Time when the run was accepted."""
    ends_by: datetime
    """Latest time at which the run ends."""
    exit_code: int | None = None
    isolation: str | None = None
    limits: RunLimits
    used: RunUsage | None = None
    truncated: bool = False
    detail: str = ""
    artifacts: tuple[RunFile, ...] = ()
    """Files that the run left. They are in the bucket `runs` for one day, as `<run id>/out/<name>`."""


class ListRuns(ProjectMessage):
    """Query for one page of runs, newest first. Ended runs are ordered by their end, others by their start."""

    limit: int = Field(default=50, ge=1, le=200)
    after: str | None = Field(default=None, pattern=r"^[0-9]{1,18}$")
    skill: SkillName | None = None
    state: RunState | None = None
    since: AwareDatetime | None = None
    """Only runs that began at this time or later."""
    until: AwareDatetime | None = None
    """Only runs that began before this time."""


class RunsListed(Message):
    """One page of runs."""

    runs: tuple[RunRecord, ...]
    next: str | None = None
    """Value of `after` for the next page. It can be present on a page that is not full. Absent on the last page."""


CANCEL_SIGNALS: Final = "skillbus.ctl.run.cancel.*"
"""Subjects on which replicas of the sandbox tell each other to end a run; the last token is the run's id."""

RUN_PRINTED: Final = Feed(
    service=SERVICE,
    entity="run",
    fact="printed",
    body=RunEvent,
    summary="Output of a run while it lasts. Published for runs that were requested with `stream`.",
)
CANCEL_RUN: Final = Endpoint(
    service=SERVICE,
    name="cancel_run",
    request=RunSelector,
    reply=RunCancelled,
    summary="Cancel a run on whichever replica it runs. Its caller gets the output so far.",
    raises=(ErrorCode.NOT_FOUND,),
    example={"run_id": "0" * 32},
)
LIST_RUNS: Final = Endpoint(
    service=SERVICE,
    name="list_runs",
    request=ListRuns,
    reply=RunsListed,
    summary="List the runs of the last day, newest first. At most 10,000 runs of all projects are kept.",
    is_read=True,
    example={"limit": 20},
)
GET_RUN: Final = Endpoint(
    service=SERVICE,
    name="get_run",
    request=RunSelector,
    reply=RunRecord,
    summary="Return the record of a run: its state, limits, usage and artifacts.",
    is_read=True,
    raises=(ErrorCode.NOT_FOUND,),
    example={"run_id": "0" * 32},
)
