"""Chat completions in OpenAI's format: requests become turns of the agent, and turns become replies or chunks."""

import time
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import to_json

from skillbus.contracts.agent.approvals import ApprovalMode
from skillbus.contracts.agent.chat import (
    AUTO_MODEL,
    CALLER_TOOLS_MAX,
    MESSAGES_MAX,
    Chat,
    ChatMessage,
    ChatOptions,
    DisclosureOptions,
    ToolDefinition,
    TurnEnded,
)
from skillbus.contracts.agent.turns import TurnEvent, TurnEventKind
from skillbus.contracts.chat_http import SkillbusChatOptions
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Message, NullAs
from skillbus.contracts.validation import describe_problems
from skillbus.gateway.domain.openai import convert_problem
from skillbus.gateway.domain.problem import make_problem

COMPLETION_PREFIX: Final = "chatcmpl-"
_PATH: Final = "/v1/chat/completions"
_OWN_FIELDS: Final = frozenset({"metadata", "stream", "stream_options", "n", "max_tokens"})
_STEP_KINDS: Final = frozenset(
    {
        TurnEventKind.CALLING,
        TurnEventKind.CALLED,
        TurnEventKind.APPROVAL_REQUIRED,
        TurnEventKind.APPROVAL_DECIDED,
        TurnEventKind.STEP,
    }
)


def _parse_options(given: object) -> object:
    """Read the options, an object or its JSON text: OpenAI's clients take only texts as values of `metadata`."""
    if not isinstance(given, dict):
        return given
    if (own := given.get("skillbus")) is None:
        return {name: value for name, value in given.items() if name != "skillbus"}
    # Lists and enumerations are taken as JSON has them, which strict validation of a Python object refuses.
    text = own if isinstance(own, str) else to_json(own)
    try:
        return {**given, "skillbus": SkillbusChatOptions.model_validate_json(text, strict=True, extra="forbid")}
    except ValidationError as error:
        raise ValueError(f"skillbus.{describe_problems(error, limit=1)}") from None


def _list_stops(given: object) -> object:
    return (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else given or ()


class ChatMetadata(Message):
    """Metadata of a chat completion."""

    skillbus: SkillbusChatOptions = SkillbusChatOptions()


class StreamOptions(Message):
    """Options of a stream."""

    include_usage: bool = False
    """True sends a last chunk with the tokens of all steps."""


class ChatCompletionBody(Message):
    """Chat completion in OpenAI's format. Fields that are not listed here are passed on to the model's provider."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    model: str = Field(default=AUTO_MODEL, min_length=1, max_length=300)
    """Name of a chat model, `provider/name`, or `auto` for the default model and its fallbacks."""
    messages: tuple[ChatMessage, ...] = Field(min_length=1, max_length=MESSAGES_MAX)
    tools: Annotated[tuple[ToolDefinition, ...], NullAs(())] = Field(default=(), max_length=CALLER_TOOLS_MAX)
    """Functions of the caller. If the model calls one, the reply has `tool_calls`."""
    tool_choice: JsonValue = None
    """Choice of a tool for the first step, in OpenAI's format."""
    parallel_tool_calls: bool | None = None
    max_completion_tokens: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    """Older name of `max_completion_tokens`."""
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    stop: Annotated[tuple[str, ...], Field(max_length=16), BeforeValidator(_list_stops)] = ()
    """One text or several; the answer ends before the first of them."""
    response_format: dict[str, JsonValue] | None = None
    n: Literal[1] | None = None
    """Only one answer is made."""
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    metadata: Annotated[ChatMetadata, BeforeValidator(_parse_options)] | None = None
    """Options of skillbus, in its field `skillbus`."""

    @property
    def options(self) -> SkillbusChatOptions:
        """Options of skillbus."""
        return SkillbusChatOptions() if self.metadata is None else self.metadata.skillbus

    def to_chat(self, project: str, turn_id: str) -> Chat:
        """Return the request for the agent. Raises RequestError."""
        own = self.options
        follows_steps = bool(self.stream) and own.events
        extra = {name: value for name, value in (self.model_extra or {}).items() if value is not None}
        try:
            return Chat(
                project=project,
                turn_id=turn_id,
                model=self.model,
                messages=tuple(message.model_copy(update={"upstream": None}) for message in self.messages),
                tools=self.tools,
                options=ChatOptions(
                    max_completion_tokens=self.max_completion_tokens or self.max_tokens,
                    temperature=self.temperature,
                    top_p=self.top_p,
                    stop=self.stop,
                    response_format=self.response_format,
                    tool_choice=self.tool_choice,
                    parallel_tool_calls=self.parallel_tool_calls,
                    extra=extra,
                ),
                disclosure=DisclosureOptions(
                    enabled=own.disclose, always=own.tools, tool_types=own.tool_types, top_k=own.top_k
                ),
                knowledge=own.knowledge,
                limits=own.limits,
                approvals=own.approvals or (ApprovalMode.WAIT if follows_steps else ApprovalMode.REFUSE),
            )
        except ValidationError as error:  # of the fields that are passed on
            raise RequestError(ErrorCode.INVALID_REQUEST, describe_problems(error, limit=1)) from None


def make_completion(ended: TurnEnded) -> dict[str, JsonValue]:
    """Return the reply to a chat completion."""
    message: dict[str, JsonValue] = {"role": "assistant", "content": ended.message.text or None, "refusal": None}
    if ended.message.tool_calls:
        message["tool_calls"] = [part.model_dump(mode="json") for part in ended.message.tool_calls]
    choice: JsonValue = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": ended.finish_reason.value,
    }
    return {
        "id": f"{COMPLETION_PREFIX}{ended.turn_id}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": ended.model,
        "choices": [choice],
        "usage": _make_usage(ended),
        "skillbus": _make_extension(ended),
    }


class ChunkWriter:
    """Encoder of the messages of one turn as chunks of a stream."""

    def __init__(self, turn_id: str, model: str, *, events: bool, include_usage: bool, numbers: bool = False) -> None:
        """`events` adds chunks about the steps. `numbers` gives each server-sent event the number of its message."""
        self._fields = {
            "id": f"{COMPLETION_PREFIX}{turn_id}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
        }
        self._model = ""
        self._head = b""
        self._name_model(model)
        self._events = events
        self._include_usage = include_usage
        self._numbers = numbers
        self._begun = False
        self._ended = False

    def encode_part(self, event: TurnEvent) -> bytes:
        """Return the chunks of a message; empty if it has none. They name the model that answers, once it is known."""
        self._name_model(event.model if event.ended is None else event.ended.model)
        chunks = b"".join(self._make_chunks(event))
        if not chunks or not self._numbers:
            return chunks
        return b"id: %d\n%b" % (event.number, chunks)

    def encode_end(self) -> bytes:
        """Return the end of a stream that has none yet: there was nothing more to follow."""
        return b"" if self._ended else DONE

    def encode_error(self, error: RequestError) -> bytes:
        """Return the end of a stream that fails."""
        return b"data: %b\n\n" % convert_problem(make_problem(error, _PATH)).model_dump_json().encode() + DONE

    def _name_model(self, model: str) -> None:
        if model and model != self._model:
            self._model = model
            self._head = to_json({**self._fields, "model": model})[:-1]

    def _make_chunks(self, event: TurnEvent) -> list[bytes]:
        chunks = list[bytes]()
        if not self._begun and event.kind is not TurnEventKind.BEGUN:
            self._begun = True
            chunks.append(self._make_chunk(b'{"role":"assistant","content":""}'))
        if event.kind is TurnEventKind.TEXT:
            chunks.append(self._make_chunk(b'{"content":%b}' % to_json(event.text)))
        elif event.kind in _STEP_KINDS and self._events:
            about = event.model_dump(mode="json", include={"kind", "call", "approval", "step"}, exclude_none=True)
            chunks.append(self._make_chunk(b"{}", skillbus=about))
        elif event.kind is TurnEventKind.ENDED and event.ended is not None:
            self._ended = True
            chunks += self._make_end(event.ended)
        return chunks

    def _make_end(self, ended: TurnEnded) -> list[bytes]:
        chunks = list[bytes]()
        if ended.message.tool_calls:
            calls = [
                {"index": index, **part.model_dump(mode="json")} for index, part in enumerate(ended.message.tool_calls)
            ]
            chunks.append(self._make_chunk(to_json({"tool_calls": calls})))
        chunks.append(self._make_chunk(b"{}", ended.finish_reason.value, skillbus=_make_extension(ended)))
        if self._include_usage:
            chunks.append(b'data: %b,"choices":[],"usage":%b}\n\n' % (self._head, to_json(_make_usage(ended))))
        return [*chunks, DONE]

    def _make_chunk(self, delta: bytes, finish: str | None = None, skillbus: JsonValue = None) -> bytes:
        extension = b"" if skillbus is None else b',"skillbus":%b' % to_json(skillbus)
        choice = b'{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}' % (delta, to_json(finish))
        return b'data: %b,"choices":[%b]%b}\n\n' % (self._head, choice, extension)


DONE: Final = b"data: [DONE]\n\n"


def _make_usage(ended: TurnEnded) -> dict[str, JsonValue]:
    """Return the tokens of all steps in OpenAI's format."""
    usage = ended.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _make_extension(ended: TurnEnded) -> dict[str, JsonValue]:
    """Return what skillbus adds to a reply."""
    wanted = {"turn_id", "provider", "model", "limit", "unapproved", "disclosure", "citations", "knowledge_request"}
    extension: dict[str, JsonValue] = ended.model_dump(mode="json", include=wanted, exclude_none=True)
    return {**extension, "steps": len(ended.steps), "tool_calls": sum(len(step.calls) for step in ended.steps)}
