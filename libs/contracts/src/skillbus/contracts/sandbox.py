"""What the sandbox answers."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, JsonValue, model_validator

from skillbus.contracts.endpoint import Endpoint, health_of
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import DEFAULT_PROJECT, Content, Empty, Message, Project, SkillName

SERVICE: Final = "sandbox"


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
    """Wall clock; the sandbox's own limit if absent or larger."""

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


class SandboxLimits(Message):
    """The limits of every run, and how runs are isolated here."""

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
        ErrorCode.INVALID_ARGUMENTS,
        ErrorCode.PAYLOAD_TOO_LARGE,
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
    summary="The limits of every run, and how runs are isolated here.",
)
HEALTH: Final = health_of(SERVICE)
