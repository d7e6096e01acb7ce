"""What the sandbox answers."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, JsonValue, StringConstraints, model_validator

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import DEFAULT_PROJECT, Content, Empty, Message, Project, SkillName
from skillbus.contracts.sandbox import SERVICE


class RunStatus(StrEnum):
    """How a run ended: by itself, or by which limit."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CPU = "cpu"
    MEMORY = "memory"
    OUTPUT = "output"
    INODES = "inodes"
    CANCELLED = "cancelled"
    KILLED = "killed"


RunId = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{32}$"),
    Field(description="32 hexadecimal digits. Whoever knows it can fetch what the run left: make it at random."),
]


class RunLimits(Message):
    """The limits that a run had."""

    wall_s: float
    cpu_s: int
    """Of each process."""
    memory_bytes: int
    """Of the whole tree of processes."""
    processes: int
    output_bytes: int
    """Standard output and standard error together."""
    artifacts: int
    artifacts_bytes: int
    work_bytes: int


class RunUsage(Message):
    """What a run used."""

    waited_ms: float
    """For a slot, and for the skill to be unpacked."""
    wall_ms: float
    """From the start of its sandbox until nothing of it was left."""
    cpu_ms: float
    """0 when it was ended from outside."""
    peak_bytes: int | None = None
    """The most memory that was seen of the whole tree; absent when it was not looked at."""
    output_bytes: int
    artifacts: int
    artifacts_bytes: int


class RunSkill(Message):
    """A run of one action of a skill."""

    project: Project = DEFAULT_PROJECT
    name: SkillName
    action: str | None = None
    """An action or a script's path; the default action if absent."""
    args: dict[str, JsonValue] | None = None
    """Arguments by name, checked against the action's input schema."""
    argv: Annotated[tuple[str, ...], Field(max_length=256, fail_fast=True)] | None = None
    """Arguments as they are; instead of `args`."""
    stdin: str | None = None
    """Standard input; not for actions that take their arguments there."""
    files: dict[str, Content] = Field(default_factory=dict, max_length=64)
    """Files for the run, read-only in the folder that `$SKILLBUS_IN` names; objects are in the bucket `runs`."""
    timeout_s: float | None = Field(default=None, gt=0, le=3600)
    """Wall clock; the limit of the skill's runs if absent or larger."""
    run_id: RunId | None = None
    """The run's id; made if absent. One that is in use or known is refused with `conflict`."""
    stream: bool = False
    """Whether what it prints is told on `skillbus.feed.run.printed.<run id>` too, while it runs. Listen before."""

    @model_validator(mode="after")
    def _one_kind_of_arguments(self) -> "RunSkill":
        if self.args is not None and self.argv is not None:
            raise ValueError("give args or argv, not both")
        return self


class Artifact(Message):
    """A file that the run left in `$SKILLBUS_OUT`."""

    name: str
    content: Content
    """Objects are in the bucket `runs`."""


class SkillRan(Message):
    """What a run gave."""

    run_id: str
    status: RunStatus
    exit_code: int | None
    """Absent when the run did not end by itself."""
    stdout: Content
    stderr: Content
    result: JsonValue = None
    """Standard output as JSON, when it is JSON."""
    artifacts: tuple[Artifact, ...] = ()
    duration_ms: float
    truncated: bool
    """Whether output was cut at its limit."""
    isolation: str
    """The isolation level that the run had."""
    detail: str = ""
    """Which limit ended it, or what was left out, in words."""
    limits: RunLimits | None = None
    """Those that held for this run."""
    used: RunUsage | None = None


class SandboxLimits(Message):
    """The limits of runs, how they are isolated here, and how many there are now. Each replica answers for itself."""

    isolation: str | None
    """Absent when this machine cannot isolate: then nothing runs."""
    reason: str = ""
    """Why not."""
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
    """Runs at the same time."""
    waiting: int = 0
    """Runs that may wait for a slot; more are refused with `overloaded`."""
    running_now: int = 0
    waiting_now: int = 0
    ceiling: RunLimits | None = None
    """What a skill can raise its limits to; each is the limit above unless the operator allows more."""


RUN_SKILL: Final = Endpoint(
    service=SERVICE,
    name="run_skill",
    request=RunSkill,
    reply=SkillRan,
    summary="Run an action of a skill in isolation.",
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
    timeout_s=75.0,
    example={"name": "calculate", "args": {"expression": "(1 + 2) * 3"}},
)
GET_LIMITS: Final = Endpoint(
    service=SERVICE,
    name="get_limits",
    request=Empty,
    reply=SandboxLimits,
    summary="The limits of runs, how they are isolated here, and how many there are now.",
)
