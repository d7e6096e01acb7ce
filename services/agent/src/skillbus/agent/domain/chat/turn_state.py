"""The state of a turn between two steps: a value that can be stored, and from which the turn goes on."""

import re
import time
from typing import Final

from pydantic import Field

from skillbus.agent.domain.chat.toolbox import Toolbox
from skillbus.contracts.agent.chat import (
    Chat,
    ChatMessage,
    ChatRole,
    FinishReason,
    TokenUsage,
    ToolCallPart,
    TurnId,
    TurnLimit,
    TurnStep,
)
from skillbus.contracts.message import Message

CALL_ID_PREFIX: Final = "call_"
_CALL_ID: Final = re.compile(rf"{CALL_ID_PREFIX}(?P<turn_id>[0-9a-f]{{32}})[0-9]{{3,}}")


class TurnState(Message):
    """State of a turn."""

    turn_id: TurnId
    chat: Chat
    began_at: float
    """Unix time."""
    history: tuple[ChatMessage, ...] = ()
    """Messages of the caller, with the steps that earlier turns kept to themselves."""
    added: tuple[ChatMessage, ...] = ()
    """Messages of this turn: answers of the model and results of tools."""
    toolbox: Toolbox = Toolbox()
    steps: tuple[TurnStep, ...] = ()
    text: str = ""
    """Text of the answer so far."""
    calls: int = 0
    """Calls of tools that the model asked for."""
    call_counts: dict[str, int] = Field(default_factory=dict)
    """Number of calls by function and arguments."""
    shown_tokens: int = 0
    """Estimated tokens of the definitions that were sent."""
    shown_names: frozenset[str] = frozenset()
    """Names of all tools that were shown."""
    known_items: tuple[str, ...] = ()
    """Knowledge items that the model was given, as `<id> v<version>`."""
    knowledge_request: str | None = None
    """Id of the request for the knowledge, for feedback on it."""
    limit: TurnLimit | None = None
    waited_s: float = 0.0
    """Seconds that the turn has waited for approvals."""
    unapproved: tuple[str, ...] = ()
    """Ids of tools that were not called because nobody could be asked for an approval."""
    open_calls: tuple[ToolCallPart, ...] = ()
    """Calls of the caller's tools, which ended the turn."""
    finish_reason: FinishReason | None = None
    """Set at the end."""
    provider: str = ""
    model: str = ""

    @property
    def is_formatted(self) -> bool:
        """True if the caller wants the answer in a format, such as JSON."""
        return (self.chat.options.response_format or {}).get("type", "text") != "text"

    @property
    def usage(self) -> TokenUsage:
        """Tokens of all steps."""
        return TokenUsage(
            prompt_tokens=sum(step.usage.prompt_tokens for step in self.steps),
            completion_tokens=sum(step.usage.completion_tokens for step in self.steps),
            cached_tokens=sum(step.usage.cached_tokens for step in self.steps),
            reasoning_tokens=sum(step.usage.reasoning_tokens for step in self.steps),
        )

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """All messages for the model."""
        return (*self.history, *self.added)

    def measure_time_left_s(self) -> float:
        """Return the seconds until the turn's limit of time; negative after it. Waits for approvals do not count."""
        return self.began_at + self.chat.limits.time_s + self.waited_s - time.time()

    def find_limit(self) -> TurnLimit | None:
        """Return the limit that the turn has met, if the next step has to be its last one."""
        limits = self.chat.limits
        if self.limit is not None:
            return self.limit
        if len(self.steps) >= limits.steps - 1:
            return TurnLimit.STEPS
        if self.calls > limits.calls:
            return TurnLimit.CALLS
        if self.measure_time_left_s() <= 0:
            return TurnLimit.TIME
        return TurnLimit.TOKENS if self.usage.total_tokens >= limits.tokens else None


def make_call_id(turn_id: str, number: int) -> str:
    """Return the id of a call in a turn. It has 40 characters, the most that OpenAI's API takes, up to number 999."""
    return f"{CALL_ID_PREFIX}{turn_id}{number:03}"


def read_turn_id(message: ChatMessage) -> str | None:
    """Return the id of the turn that ended with this message of the assistant, or None."""
    if message.role is not ChatRole.ASSISTANT or not message.tool_calls:
        return None
    found = _CALL_ID.fullmatch(message.tool_calls[0].id)
    return None if found is None else found["turn_id"]
