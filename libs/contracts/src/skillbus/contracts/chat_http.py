"""Chat completions over HTTP: the options of skillbus, replies, and chunks of a stream, in OpenAI's format."""

from typing import Literal

from pydantic import ConfigDict, Field, JsonValue

from skillbus.contracts.agent.approvals import ApprovalMode, CallApproval
from skillbus.contracts.agent.chat import (
    CalledTool,
    ChatMessage,
    ChatRole,
    Citation,
    DisclosureUsage,
    FinishReason,
    FunctionCall,
    KnowledgeOptions,
    TurnId,
    TurnLimit,
    TurnLimits,
    TurnStep,
)
from skillbus.contracts.indexer.tools import ToolId, ToolType
from skillbus.contracts.message import Message


class SkillbusChatOptions(Message):
    """Options of skillbus, in `metadata.skillbus` of a chat completion, as an object or as its JSON text."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    disclose: bool = True
    """False shows only `tools` and those of the request."""
    tools: tuple[ToolId, ...] = Field(default=(), max_length=32)
    """Ids of tools that are shown in each step."""
    tool_types: tuple[ToolType, ...] = Field(default=(), max_length=8)
    """Types of tools that may be found. Empty means all."""
    top_k: int = Field(default=10, ge=0, le=50)
    """Tools that are shown before the first step."""
    knowledge: KnowledgeOptions | None = None
    """Knowledge that the model is given. Absent means none."""
    limits: TurnLimits = TurnLimits()
    events: bool = False
    """True adds chunks with the steps of the turn, in their field `skillbus`, to a stream."""
    turn_id: TurnId | None = None
    """Id that the caller chose for the turn, at random. A stream with it goes on without its caller: it is followed and
    cancelled by this id."""
    approvals: ApprovalMode | None = None
    """Conduct before a tool is called that needs an approval: `wait` for a person, or `refuse` the call. Absent
    means `wait` in a stream with `events`, where the caller sees what waits, and `refuse` elsewhere."""


class ChatUsage(Message):
    """Tokens of all steps of a turn."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatExtension(Message):
    """Field `skillbus` of a reply or of a chunk: the whole turn at its end, or one of its steps."""

    turn_id: str | None = None
    provider: str | None = None
    model: str | None = None
    limit: TurnLimit | None = None
    """Limit that ended the calling of tools."""
    unapproved: tuple[str, ...] = ()
    """Ids of tools that were not called because nobody could be asked for an approval."""
    disclosure: DisclosureUsage | None = None
    citations: tuple[Citation, ...] = ()
    knowledge_request: str | None = None
    """Id of the request for knowledge, for feedback on it."""
    steps: int | None = None
    tool_calls: int | None = None
    """Calls of tools of skillbus."""
    kind: Literal["calling", "called", "approval_required", "approval_decided", "step"] | None = None
    """Only for a step."""
    call: CalledTool | None = None
    """Only for `calling` and `called`."""
    approval: CallApproval | None = None
    """Only for `approval_required` and `approval_decided`."""
    step: TurnStep | None = None
    """Only for `step`."""


class ChatChoice(Message):
    """Answer of a chat completion."""

    index: int = 0
    message: ChatMessage
    finish_reason: FinishReason


class ChatCompletion(Message):
    """Reply to a chat completion."""

    id: str
    model: str
    created: int
    choices: tuple[ChatChoice, ...] = Field(min_length=1)
    """Exactly one."""
    usage: ChatUsage
    skillbus: ChatExtension = ChatExtension()

    @property
    def text(self) -> str:
        """Text of the answer."""
        return self.choices[0].message.text


class ChunkCall(Message):
    """Call of a tool of the caller, whole."""

    index: int
    id: str
    function: FunctionCall


class ChunkDelta(Message):
    """Part of the answer in a chunk."""

    role: ChatRole | None = None
    content: str | None = None
    tool_calls: tuple[ChunkCall, ...] = ()


class ChunkChoice(Message):
    """Answer of a chunk."""

    index: int = 0
    delta: ChunkDelta
    finish_reason: FinishReason | None = None
    """Only in the last chunk but that of the usage."""


class ChatChunk(Message):
    """Chunk of a streamed chat completion."""

    id: str
    model: str
    choices: tuple[ChunkChoice, ...] = ()
    """One; none in the chunk of the usage."""
    number: int | None = None
    """Number of the message, for following on after it. Only of turns that are followed again."""
    usage: ChatUsage | None = None
    skillbus: ChatExtension | None = None

    @property
    def text(self) -> str:
        """Text of the chunk."""
        return (self.choices[0].delta.content or "") if self.choices else ""


class CallDecision(Message):
    """Decision about one call that waits."""

    call_id: str = Field(min_length=1, max_length=200)
    """`call_id` of the chunk `approval_required`."""
    approved: bool
    reason: str = Field(default="", max_length=500)
    """Reason of a denial. The model is told."""
    arguments: dict[str, JsonValue] | None = None
    """Arguments to call the tool with instead of the model's."""


class DecisionsBody(Message):
    """Decisions about calls of one turn."""

    decisions: tuple[CallDecision, ...] = Field(min_length=1, max_length=64)


class DecisionTaken(Message):
    """Fate of a decision."""

    call_id: str
    taken: bool
    """False if no such call waits: somebody else decided, or its time was over."""
    tool: str | None = None
    """Id of the tool. Only for a decision that was taken."""


class DecisionsTaken(Message):
    """Fates of decisions, in their order."""

    turn_id: str
    decisions: tuple[DecisionTaken, ...]
