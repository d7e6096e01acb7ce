"""Runs of skills and the limits of the sandbox."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, JsonValue, StringConstraints, model_validator

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import Content, Empty, Message, ProjectMessage, SkillName
from skillbus.contracts.sandbox import SERVICE


class RunStatus(StrEnum):
    """End of a run."""

    OK = "ok"
    """The program ended with exit code 0."""
    FAILED = "failed"
    """The program ended with another exit code."""
    TIMEOUT = "timeout"
    """The run exceeded its wall-clock limit."""
    CPU = "cpu"
    """A process exceeded its CPU limit."""
    MEMORY = "memory"
    """The run exceeded its memory limit."""
    OUTPUT = "output"
    """The run exceeded its output limit."""
    INODES = "inodes"
    """The run created too many files."""
    CANCELLED = "cancelled"
    """A caller cancelled the run."""
    KILLED = "killed"
    """A signal or a failure of the sandbox ended the run."""


RunId = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{32}$"),
    Field(description="32 hexadecimal digits. Choose them at random: whoever knows the id can fetch the run's files."),
]


class RunLimits(Message):
    """Limits of a run."""

    wall_s: float
    """Wall-clock time, in seconds."""
    cpu_s: int
    """CPU time of each process, in seconds."""
    memory_bytes: int
    """Memory of all processes together."""
    processes: int
    """Processes and threads at the same time."""
    output_bytes: int
    """Standard output and standard error together."""
    artifacts: int
    """Number of files that the run may leave."""
    artifacts_bytes: int
    """Size of all files that the run may leave."""
    work_bytes: int
    """Size of the working folder."""


class RunUsage(Message):
    """Resources that a run used."""

    waited_ms: float
    """Time until it got a slot and the skill was unpacked, in milliseconds."""
    wall_ms: float
    """Time from the start of its sandbox until nothing of it was left, in milliseconds."""
    cpu_ms: float
    """CPU time, in milliseconds. 0 if the run was ended from outside."""
    peak_bytes: int | None = None
    """Most memory of all processes together. Absent if it was not measured."""
    output_bytes: int
    artifacts: int
    artifacts_bytes: int


class RunSkill(ProjectMessage):
    """Run of one action of a skill."""

    name: SkillName
    action: str | None = None
    """Action, or path of a script. Absent means the default action."""
    args: dict[str, JsonValue] | None = None
    """Arguments by name, validated against the action's input schema."""
    argv: Annotated[tuple[str, ...], Field(max_length=256, fail_fast=True)] | None = None
    """Command-line arguments that are passed on unchanged, instead of `args`."""
    stdin: str | None = None
    """Standard input. Not allowed for actions that receive their arguments there."""
    files: dict[str, Content] = Field(default_factory=dict, max_length=64)
    """Input files by name. The run can read them in the folder `$SKILLBUS_IN`. Objects are in the bucket `runs`."""
    timeout_s: float | None = Field(default=None, gt=0, le=3600)
    """Wall-clock limit, in seconds. Absent means the skill's limit, which cannot be exceeded."""
    run_id: RunId | None = None
    """Id of the run. Absent means that the sandbox chooses one. An id that is already known is refused with
    `conflict`."""
    run_id_is_new: bool = False
    """True says that `run_id` was made at random for this run. The run does not wait for the record of its start then;
    if the id is known after all, `conflict` comes after the run."""
    stream: bool = False
    """True also publishes the output on `skillbus.feed.run.printed.<run id>` while the run lasts. Subscribe
    before the request."""

    @model_validator(mode="after")
    def _one_kind_of_arguments(self) -> "RunSkill":
        if self.args is not None and self.argv is not None:
            raise ValueError("give either `args` or `argv`")
        return self


class Artifact(Message):
    """File that a run left in `$SKILLBUS_OUT`."""

    name: str
    """Path below `$SKILLBUS_OUT`, with forward slashes."""
    content: Content
    """The file. Objects are in the bucket `runs`."""


class RunResult(Message):
    """Result of a run, apart from its output and files."""

    run_id: str
    status: RunStatus
    exit_code: int | None
    """Exit code of the program. Absent if a limit or a cancellation ended the run."""
    result: JsonValue = None
    """Standard output parsed as JSON. Null if it is not JSON."""
    duration_ms: float
    truncated: bool
    """True if output was cut at its limit."""
    isolation: str
    """Isolation level of the run."""
    detail: str = ""
    """Limit that ended the run, or what was left out of the reply, for people."""
    limits: RunLimits | None = None
    used: RunUsage | None = None


class SkillRan(RunResult):
    """Result of a run, with its output and the files that it left."""

    stdout: Content
    stderr: Content
    artifacts: tuple[Artifact, ...] = ()


class SandboxLimits(Message):
    """Limits, isolation level and load of one replica of the sandbox. `RunLimits` explains the default limits."""

    isolation: str | None
    """Isolation level of runs. Absent if this machine cannot isolate runs; then nothing runs."""
    reason: str = ""
    """Reason why the machine cannot isolate runs."""
    runtimes: tuple[str, ...]
    wall_s: float
    cpu_s: float
    memory_bytes: int
    processes: int
    output_bytes: int
    artifacts: int
    artifacts_bytes: int
    work_bytes: int
    slots: int
    """Most runs at the same time."""
    waiting: int = 0
    """Most runs that may wait for a slot. Further runs are refused with `overloaded`."""
    running_now: int = 0
    waiting_now: int = 0
    ceiling: RunLimits | None = None
    """Highest limits that a skill can ask for. They equal the default limits unless the operator allows more."""


RUN_SKILL: Final = Endpoint(
    service=SERVICE,
    name="run_skill",
    request=RunSkill,
    reply=SkillRan,
    summary="Run an action of a skill in isolation and return its output.",
    raises=(
        ErrorCode.SKILL_NOT_FOUND,
        ErrorCode.FORBIDDEN,
        ErrorCode.NOT_FOUND,
        ErrorCode.UNKNOWN_ACTION,
        ErrorCode.NO_ENTRY_POINT,
        ErrorCode.CONFLICT,
        ErrorCode.INVALID_ARGUMENTS,
        ErrorCode.PAYLOAD_TOO_LARGE,
        ErrorCode.DEPENDENCIES_UNAVAILABLE,
        ErrorCode.RUNTIME_MISSING,
        ErrorCode.SANDBOX_UNAVAILABLE,
    ),
    idempotent=False,
    stores_data=True,
    timeout_s=75.0,
    example={"name": "calculate", "args": {"expression": "(1 + 2) * 3"}},
    act=AuditedAct("name", details=("run_id", "status")),
)
GET_LIMITS: Final = Endpoint(
    service=SERVICE,
    name="get_limits",
    request=Empty,
    reply=SandboxLimits,
    summary="Return the limits, the isolation level and the current load of the sandbox.",
    is_read=True,
)
