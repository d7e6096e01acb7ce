"""Runs of programs that a model wrote, and the tool calls that they make."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, StringConstraints

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint, Feed, WorkLine
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer.tools import ToolId
from skillbus.contracts.message import WITHOUT_NUL, Message, ProjectMessage
from skillbus.contracts.sandbox import SERVICE
from skillbus.contracts.sandbox.skill_runs import RunId, SkillRan

RUN_CODE: Final = "builtin:run_code"
"""Id of the builtin tool that runs programs."""
PROGRAM_NAME: Final = "run-code"
"""Name of all programs in the history of runs, where skills have theirs."""
CODE_CHARACTERS: Final = 200_000
FRAME_BYTES: Final = 1024 * 1024 - 8 * 1024
"""Largest request or reply between a program and the agent: a NATS message of 1 MiB, without its headers."""
CALLS_AT_ONCE: Final = 16
"""Most tool calls of one program at the same time."""
CALLS_MAX: Final = 10_000
"""Highest number of calls that an operator can allow."""


class ProgramLanguage(StrEnum):
    """Language of a program."""

    PYTHON = "python"
    NODE = "node"


class RunProgram(ProjectMessage):
    """Run of a program in isolation. The program may call tools through the agent that asks for the run."""

    language: ProgramLanguage
    code: Annotated[str, StringConstraints(min_length=1, max_length=CODE_CHARACTERS), WITHOUT_NUL]
    timeout_s: float | None = Field(default=None, gt=0, le=3600)
    """Wall-clock limit, in seconds. Absent means the sandbox's limit, which cannot be exceeded."""
    run_id: RunId
    """Id of the run, by which it can be cancelled."""
    line: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    """Random id of the line on which the agent hears the tool calls of this program alone. It is a secret of agent and
    sandbox: who knows it can call tools as the program."""
    calls: int = Field(ge=0, le=CALLS_MAX)
    """Most tool calls of the program."""
    call_bytes: int = Field(ge=0)
    """Most bytes of all requests of the program together, and of all replies together."""
    stream: bool = False
    """True also publishes the output on `skillbus.feed.run.printed.<run id>` while the run lasts."""


class ProgramRequest(Message):
    """One request of a program: to call a tool, or to describe one."""

    method: Literal["call_tool", "tool_schema"]
    id: ToolId
    action: str | None = None
    """Action of a skill. Absent means its default action."""
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class ProgramError(Message):
    """Error of a request of a program."""

    code: str
    message: str


class ProgramReply(Message):
    """Reply to a request of a program: a result or an error."""

    result: JsonValue = None
    """Result of the call in the form of `ToolCalled`, or the description of the tool."""
    error: ProgramError | None = None


class ProgramCalled(Message):
    """Tool call of a program that has ended."""

    run_id: RunId
    """Id of the run of the program."""
    number: int
    """1, 2, 3 and so on, in the order of the ends."""
    id: str
    """Id of the tool."""
    call_id: str
    """Id of the call; of a skill also the id of its run."""
    code: str | None = None
    """Code of the error if the tool was not called."""
    is_error: bool = False
    """True if the tool reports a failure."""
    duration_ms: float


PROGRAM_CALLED: Final = Feed(
    service="agent",
    entity="program",
    fact="called",
    body=ProgramCalled,
    summary="Tool calls of a program while it runs. Published for calls of `run_code` that were made with `stream`.",
)
PROGRAM_CALLS: Final = WorkLine(
    service="agent",
    pattern="skillbus.ctl.program.call.*",
    request=ProgramRequest,
    reply=ProgramReply,
    summary="Tool calls of one program, to the agent that had it started. The last token is `line`.",
)
RUN_PROGRAM: Final = Endpoint(
    service=SERVICE,
    name="run_program",
    request=RunProgram,
    reply=SkillRan,
    summary="Run a program that calls tools through the agent. `result` is the value of its last expression.",
    raises=(
        ErrorCode.CONFLICT,
        ErrorCode.RUNTIME_MISSING,
        ErrorCode.SANDBOX_UNAVAILABLE,
    ),
    idempotent=False,
    stores_data=True,
    timeout_s=75.0,
    example={"language": "python", "code": "1 + 2", "run_id": "0" * 32, "line": "0" * 32, "calls": 0, "call_bytes": 0},
    act=AuditedAct(details=("run_id", "language", "status")),
)
