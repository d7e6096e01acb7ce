"""Chat turns: messages, tools and options in OpenAI's format, and how a turn is answered.

A turn begins with the messages of its caller and ends with one answer. In between the model may call tools. Those of
skillbus are called by the agent. Those of the caller end the turn; the caller sends their results with the next one.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, JsonValue

from skillbus.contracts.agent.approvals import APPROVAL_S_MAX, ApprovalMode
from skillbus.contracts.indexer.tools import ToolId, ToolType
from skillbus.contracts.message import Message, NullAs, Project, ProjectMessage
from skillbus.contracts.sandbox.skill_runs import RunId
from skillbus.contracts.scope import Scope

AUTO_MODEL: Final = "auto"
"""Name of the default chat model, with the others as its fallbacks."""
MESSAGES_MAX: Final = 1_000
CALLER_TOOLS_MAX: Final = 128
"""The same limit as in OpenAI's API."""
FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
TurnId = RunId


class ChatRole(StrEnum):
    """Author of a message."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class FunctionCall(Message):
    """Function that a model calls."""

    name: str = Field(max_length=200)
    arguments: str = ""
    """Arguments as JSON text, as the model wrote them."""


class ToolCallPart(Message):
    """Tool call of a model."""

    id: str = Field(max_length=200)
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatMessage(Message):
    """Message of a chat."""

    role: ChatRole
    content: str | tuple[dict[str, JsonValue], ...] | None = None
    """Text, or parts in OpenAI's format: `text`, `image_url`, and what else the model takes."""
    name: str | None = Field(default=None, max_length=200)
    tool_calls: Annotated[tuple[ToolCallPart, ...], NullAs(())] = ()
    """Calls that the model asked for. Only of `assistant`."""
    tool_call_id: str | None = Field(default=None, max_length=200)
    """Call that this is the result of. Only of `tool`."""
    upstream: JsonValue = None
    """Data that the provider wants back unchanged with this message, such as signed thoughts. Only inside a turn."""

    @property
    def text(self) -> str:
        """All text of the message, joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        parts = (part.get("text") for part in self.content or () if part.get("type") == "text")
        return "\n".join(part for part in parts if isinstance(part, str))


class FunctionDefinition(Message):
    """Function that a model may call."""

    name: FunctionName
    description: Annotated[str, Field(max_length=16_000), NullAs("")] = ""
    parameters: Annotated[dict[str, JsonValue], NullAs({})] = Field(default_factory=dict)
    """JSON Schema of the arguments."""
    strict: bool | None = None


class ToolDefinition(Message):
    """Tool that a model may call."""

    type: Literal["function"] = "function"
    function: FunctionDefinition


class ChatOptions(Message):
    """Options that are passed on to the model."""

    max_completion_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of one answer of the model. A turn can have several."""
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    stop: tuple[str, ...] = Field(default=(), max_length=16)
    response_format: dict[str, JsonValue] | None = None
    """Format of the final answer, as OpenAI defines it."""
    tool_choice: JsonValue = None
    """`none`, `auto`, `required`, or a function, as OpenAI defines it. It holds for the first step. With `none` there
    are no tools at all."""
    parallel_tool_calls: bool | None = None
    extra: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    """Further fields of the request to the provider, passed on unchanged."""


class DisclosureOptions(Message):
    """Tools of skillbus that a turn may use, and how they are shown to the model."""

    enabled: bool = True
    """False shows only `always` and the caller's own tools."""
    always: tuple[ToolId, ...] = Field(default=(), max_length=32)
    """Tools that are shown in each step, besides `builtin:search_tools`."""
    tool_types: tuple[ToolType, ...] = Field(default=(), max_length=8)
    """Types of tools that may be found. Empty means all that can be called."""
    top_k: int = Field(default=10, ge=0, le=50)
    """Tools that are shown before the first step, found by the words of the user."""


class KnowledgeOptions(Message):
    """Knowledge that the model is given before the first step."""

    project: Project | None = None
    """Absent means the project of the turn."""
    scope: Scope | None = None
    budget: int = Field(default=2_000, ge=1, le=100_000)
    """Most tokens of the context."""


class TurnLimits(Message):
    """Limits of a turn. At a limit the model is asked for a last answer without tools."""

    steps: int = Field(default=20, ge=1, le=100)
    """Answers of the model, the last one included."""
    calls: int = Field(default=50, ge=0, le=500)
    """Tool calls."""
    equal_calls: int = Field(default=3, ge=1, le=100)
    """Calls of one tool with the same arguments."""
    time_s: float = Field(default=300.0, gt=0, le=3_600)
    """Seconds, without the time that the turn waits for approvals."""
    approval_s: float = Field(default=600.0, gt=0, le=APPROVAL_S_MAX)
    """Seconds that the turn waits for approvals, all together. The agent's setting may allow fewer. The deadline of the
    request has to leave time for both."""
    tokens: int = Field(default=1_000_000, ge=1)
    """Tokens of all steps together."""


def _check_names(tools: tuple[ToolDefinition, ...]) -> tuple[ToolDefinition, ...]:
    names = [tool.function.name for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two tools are named {twice[0]!r}: give each a name of its own")
    return tools


class Chat(ProjectMessage):
    """Turn of a chat."""

    turn_id: TurnId | None = None
    """Id of the turn, for following and cancelling it. Absent means that the agent chooses one."""
    model: str = Field(default=AUTO_MODEL, min_length=1, max_length=300)
    """Name of a chat model, `provider/name`, or `auto` for the default model with the others as its fallbacks."""
    messages: tuple[ChatMessage, ...] = Field(min_length=1, max_length=MESSAGES_MAX)
    tools: Annotated[tuple[ToolDefinition, ...], AfterValidator(_check_names)] = Field(
        default=(), max_length=CALLER_TOOLS_MAX
    )
    """Tools of the caller, each with a name of its own. A call of one ends the turn with `tool_calls`."""
    options: ChatOptions = ChatOptions()
    disclosure: DisclosureOptions = DisclosureOptions()
    knowledge: KnowledgeOptions | None = None
    """Absent means that no knowledge is given."""
    limits: TurnLimits = TurnLimits()
    approvals: ApprovalMode = ApprovalMode.REFUSE
    """Conduct of the turn before it calls a tool that needs an approval."""
    stream: bool = False
    """True also publishes what happens on `skillbus.feed.turn.advanced.<turn id>`. Subscribe before the request."""


class FinishReason(StrEnum):
    """Why a turn ended."""

    STOP = "stop"
    LENGTH = "length"
    """The answer was cut at `max_completion_tokens`, at 100,000 characters, or at the end of the turn's time."""
    TOOL_CALLS = "tool_calls"
    """The model calls tools of the caller."""
    CONTENT_FILTER = "content_filter"


class TurnLimit(StrEnum):
    """Limit that a turn met."""

    STEPS = "steps"
    CALLS = "calls"
    EQUAL_CALLS = "equal_calls"
    TIME = "time"
    TOKENS = "tokens"


class TokenUsage(Message):
    """Tokens of the model, summed over all steps."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Part of `prompt_tokens` that the provider had in its cache."""
    reasoning_tokens: int = 0
    """Part of `completion_tokens`."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class DisclosureUsage(Message):
    """Tokens of the definitions that were shown, and of all, estimated as bytes of JSON / 4."""

    shown_tools: int
    """Tools that were shown in any step."""
    shown_tokens: int
    """Definitions sent, summed over all steps."""
    all_tools: int | None = None
    """Callable tools of the project. Absent until the catalogue has been measured, soon after the first turn."""
    all_tokens: int | None = None
    """Definitions of all callable tools, in as many steps. Absent with `all_tools`."""


class Citation(Message):
    """Knowledge item that the answer names."""

    label: str
    """Text between the brackets: `K-… v…`."""
    item_id: str | None = None
    """Absent if no such item was given to the model."""


class CalledTool(Message):
    """Call of a tool of skillbus in a step."""

    call_id: str
    id: str
    """Id of the tool. For a name that is not of a tool, the name."""
    action: str | None = None
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    """Empty for arguments of more than 1,000 characters, and in the result of a turn with very many calls."""
    is_error: bool = False
    text: str = ""
    """Beginning of the result."""
    duration_ms: float = 0.0
    run_id: str | None = None
    """Id of the call, for its files. Absent if the tool was not called."""
    findings: tuple[str, ...] = ()
    """Signs of instructions to the model in the result."""
    program_call_id: str | None = None
    """Call of `run_code` whose program made this call. Absent for a call that the model made itself. Calls of programs
    are in no step: each has a message `called` without one `calling`."""
    program_calls: int = 0
    """Calls that the program of this call made. At most 200 of a program, and 1,000 of a turn, have a message."""


class TurnStep(Message):
    """A step of a turn: the model's answer and the results of the tools that it called."""

    number: int
    """1, 2, 3 and so on."""
    provider: str
    model: str
    text: str = ""
    """Beginning of the model's text besides its calls."""
    shown: tuple[str, ...] = ()
    """Names of the tools that the model was shown."""
    calls: tuple[CalledTool, ...] = ()
    usage: TokenUsage = TokenUsage()


class TurnEnded(Message):
    """Result of a turn."""

    turn_id: TurnId
    provider: str
    model: str
    """Model of the last step."""
    message: ChatMessage
    finish_reason: FinishReason
    limit: TurnLimit | None = None
    """Limit that ended the calling of tools."""
    unapproved: tuple[str, ...] = ()
    """Ids of tools that were not called because nobody could be asked for an approval."""
    usage: TokenUsage
    disclosure: DisclosureUsage | None = None
    """Absent if no tool of skillbus was shown."""
    steps: tuple[TurnStep, ...] = ()
    citations: tuple[Citation, ...] = ()
    knowledge_request: str | None = None
    """Id of the request for knowledge, for feedback on it. Absent if none was given."""
