"""Runs while they go on and after: what they print, how they are ended, and what is remembered of them."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field

from skillbus.contracts.endpoint import Endpoint, Feed
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import DEFAULT_PROJECT, Blob, Message, Project, SkillName
from skillbus.contracts.sandbox import SERVICE
from skillbus.contracts.sandbox.skill_runs import RunId, RunLimits, RunUsage

FEED_BYTES: Final = 16 * 1024
"""The most output that one message of a feed carries."""


class RunState(StrEnum):
    """Where a run is, or how it ended: those of `RunStatus`, and three more."""

    RUNNING = "running"
    """It waits for a slot, or runs."""
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
    """It was accepted and then could not be begun; `detail` has the code of the error that its caller got."""
    LOST = "lost"
    """Its time is over and nobody said how it ended: the sandbox that had it is gone."""


class OutputStream(StrEnum):
    """Where a run prints to."""

    STDOUT = "stdout"
    STDERR = "stderr"


class RunEventKind(StrEnum):
    """What a message of a run's feed tells."""

    BEGUN = "begun"
    """The run was accepted. It may still wait for a slot."""
    OUTPUT = "output"
    ENDED = "ended"
    """The last message."""


class RunEvent(Message):
    """What a run does while it goes on."""

    run_id: RunId
    number: int
    """0, 1, 2 and so on: one that is missing was lost on the way. The reply has all output in any case."""
    kind: RunEventKind
    stream: OutputStream | None = None
    """Of output."""
    data: Blob = b""
    """Of output, at most 16 KiB: bytes as they were printed, which may begin or end within a character."""
    state: RunState | None = None
    """At the end: how it ended."""


class RunSelector(Message):
    """One run."""

    project: Project = DEFAULT_PROJECT
    run_id: RunId


class RunCancelled(Message):
    """What became of the wish to end a run."""

    run_id: RunId
    ending: bool
    """True when it was going on, and is being ended; its caller gets what it gave so far. False when it had ended."""


class RunFile(Message):
    """A file that a run left."""

    name: str
    size_bytes: int


class RunRecord(Message):
    """What is remembered of a run: never its arguments, and never what it printed."""

    run_id: RunId
    project: Project = DEFAULT_PROJECT
    skill: SkillName
    content_digest: str
    """Of the package that ran."""
    action: str
    state: RunState
    began_at: datetime
    """When it was accepted."""
    ends_by: datetime
    """When it must have ended, whatever happens."""
    exit_code: int | None = None
    """Absent when the run did not end by itself."""
    isolation: str | None = None
    """The isolation level that the run had; absent before its end."""
    limits: RunLimits
    used: RunUsage | None = None
    """Absent before its end."""
    truncated: bool = False
    """Whether output was cut at its limit."""
    detail: str = ""
    """Which limit ended it, or what was left out, in words."""
    artifacts: tuple[RunFile, ...] = ()
    """As `<run id>/out/<name>` in the bucket `runs`, for a day."""


class ListRuns(Message):
    """A page of the history, the newest first: by when a run ended, or began if it goes on."""

    project: Project = DEFAULT_PROJECT
    limit: int = Field(default=50, ge=1, le=200)
    after: str | None = Field(default=None, pattern=r"^[0-9]{1,18}$")
    """`next` of the page before."""
    skill: SkillName | None = None
    state: RunState | None = None


class RunsListed(Message):
    """A page of the history."""

    runs: tuple[RunRecord, ...]
    next: str | None = None
    """`after` of the next page, which may be there though this one is not full; absent at the end."""


RUN_PRINTED: Final = Feed(
    service=SERVICE,
    entity="run",
    fact="printed",
    body=RunEvent,
    summary="What a run prints, while it runs. Told of runs that were asked for with `stream`.",
)
CANCEL_RUN: Final = Endpoint(
    service=SERVICE,
    name="cancel_run",
    request=RunSelector,
    reply=RunCancelled,
    summary="End a run, whichever replica has it. Its caller is answered with what it gave so far.",
    raises=(ErrorCode.NOT_FOUND,),
    example={"run_id": "0" * 32},
)
LIST_RUNS: Final = Endpoint(
    service=SERVICE,
    name="list_runs",
    request=ListRuns,
    reply=RunsListed,
    summary="The runs of the last day, at most 10,000 of all projects, the newest first.",
    example={"limit": 20},
)
GET_RUN: Final = Endpoint(
    service=SERVICE,
    name="get_run",
    request=RunSelector,
    reply=RunRecord,
    summary="What is remembered of a run: its state, its limits, what it used, and which files it left.",
    raises=(ErrorCode.NOT_FOUND,),
    example={"run_id": "0" * 32},
)
